package canonical

import "strconv"

// A number is written as ECMAScript writes it (Number::toString, which RFC 8785
// section 3.2.2.3 adopts), but with all its digits. With its value as
// 0.d1d2…dk × 10^point, d1 and dk not zero, it is written without an exponent if
// minPoint < point ≤ maxPoint.
const (
	minPoint = -6
	maxPoint = 21
)

// maxShift is the greatest number of digits of an exponent that is reckoned with as
// an int64. What is added to an exponent is at most the length of a token, far
// below 10^maxShift.
const maxShift = 18

// decimal is a number token taken apart. Its digits are those of whole and then
// those of fraction, with no zero at either end; a value of zero has none.
type decimal struct {
	negative        bool
	whole, fraction []byte
	// point is where the decimal point stands behind the first digit, before the
	// exponent moves it.
	point int
	// shift is the exponent's digits, without leading zeros.
	shift         []byte
	shiftNegative bool
}

// AppendNumber appends the canonical form of token, which must be one JSON number,
// and returns the extended buffer. The value is kept exactly. Time and memory are
// linear in the length of the token, whatever its exponent. What it appends for
// anything but a number is not specified.
func AppendNumber(dst, token []byte) []byte {
	x := takeApart(token)
	if x.count() == 0 {
		return append(dst, '0')
	}
	if x.negative {
		dst = append(dst, '-')
	}
	if len(x.shift) > maxShift {
		dst = append(x.appendMantissa(dst), 'e')
		return x.appendLongExponent(dst)
	}
	point := int64(x.point) + x.shortShift()
	switch k := x.count(); {
	case point < minPoint+1 || point > maxPoint:
		dst = append(x.appendMantissa(dst), 'e')
		if point > 0 {
			dst = append(dst, '+')
		}
		return strconv.AppendInt(dst, point-1, 10)
	case point <= 0:
		dst = appendZeros(append(dst, '0', '.'), -int(point))
		return x.appendDigits(dst, 0, k)
	case int(point) < k:
		dst = append(x.appendDigits(dst, 0, int(point)), '.')
		return x.appendDigits(dst, int(point), k)
	default:
		return appendZeros(x.appendDigits(dst, 0, k), int(point)-k)
	}
}

func takeApart(token []byte) decimal {
	var x decimal
	i := 0
	if i < len(token) && token[i] == '-' {
		x.negative = true
		i++
	}
	end := skipDigits(token, i)
	x.whole = trimLeft(token[i:end])
	i = end
	if i < len(token) && token[i] == '.' {
		end = skipDigits(token, i+1)
		x.fraction = trimRight(token[i+1 : end])
		i = end
	}
	x.point = len(x.whole)
	if len(x.whole) == 0 {
		digits := trimLeft(x.fraction)
		x.point = len(digits) - len(x.fraction)
		x.fraction = digits
	} else if len(x.fraction) == 0 {
		x.whole = trimRight(x.whole)
	}
	if i++; i < len(token) {
		x.shiftNegative = token[i] == '-'
		if x.shiftNegative || token[i] == '+' {
			i++
		}
		x.shift = trimLeft(token[i:])
	}
	return x
}

func trimLeft(digits []byte) []byte {
	for len(digits) > 0 && digits[0] == '0' {
		digits = digits[1:]
	}
	return digits
}

func trimRight(digits []byte) []byte {
	for len(digits) > 0 && digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
	}
	return digits
}

func (x *decimal) count() int { return len(x.whole) + len(x.fraction) }

// shortShift is the exponent's value; it has at most maxShift digits.
func (x *decimal) shortShift() int64 {
	var v int64
	for _, c := range x.shift {
		v = v*10 + int64(c-'0')
	}
	if x.shiftNegative {
		return -v
	}
	return v
}

// appendDigits appends the digits from (counted from 0) up to to.
func (x *decimal) appendDigits(dst []byte, from, to int) []byte {
	w := len(x.whole)
	if from < w {
		dst = append(dst, x.whole[from:min(to, w)]...)
	}
	if to > w {
		dst = append(dst, x.fraction[max(from-w, 0):to-w]...)
	}
	return dst
}

// appendMantissa appends the digits with a point after the first.
func (x *decimal) appendMantissa(dst []byte) []byte {
	dst = x.appendDigits(dst, 0, 1)
	if x.count() == 1 {
		return dst
	}
	return x.appendDigits(append(dst, '.'), 1, x.count())
}

// appendLongExponent appends the exponent shift + point - 1 with its sign, where
// shift has more digits than an int64 holds. The sum keeps the sign of shift.
func (x *decimal) appendLongExponent(dst []byte) []byte {
	carry := x.point - 1
	if x.shiftNegative {
		dst, carry = append(dst, '-'), -carry
	} else {
		dst = append(dst, '+')
	}
	start := len(dst)
	dst = append(append(dst, '0'), x.shift...)
	for i := len(dst) - 1; carry != 0 && i >= start; i-- {
		carry += int(dst[i] - '0')
		digit := carry % 10
		if digit < 0 {
			digit += 10
		}
		dst[i] = '0' + byte(digit)
		carry = (carry - digit) / 10
	}
	sum := trimLeft(dst[start:])
	return append(dst[:start], sum...)
}

func appendZeros(dst []byte, n int) []byte {
	return append(dst, "000000000000000000000"[:n]...)
}
