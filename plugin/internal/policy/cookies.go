package policy

import "github.com/callonce/callonce/canonical"

// steering are the names, or globs of names, of cookies by which a load balancer finds
// the server that it chose before, as their makers' documents name them. They come and
// change with answers, whoever asks, and say nothing of who calls. Names count as they
// are spelled. None may be here that a login lives in, such as JSESSIONID, AWSELBAuthSessionCookie-0
// and NSC_TMAS: two callers would be one.
var steering = []string{
	// Amazon: application and classic load balancers
	"AWSALB", "AWSALBCORS", "AWSALBTG", "AWSALBTGCORS", "AWSALBAPP-*", "AWSELB", "AWSELBCORS",
	// Google Cloud, external and internal
	"GCLB", "GCILB",
	// Azure: App Service, Application Gateway (and for Containers), Front Door
	"ARRAffinity", "ARRAffinitySameSite", "ApplicationGatewayAffinity", "ApplicationGatewayAffinityCORS", "AGCAffinity",
	"ASLBSA", "ASLBSACORS",
	// Oracle, DigitalOcean, Cloudflare, Cloud Foundry, Heroku
	"X-Oracle-BMC-LBS-Route", "DO-LB", "__cflb", "__VCAP_ID__", "heroku-session-affinity",
	// ingress-nginx, nginx, HAProxy and Alibaba, Apache, F5
	"INGRESSCOOKIE", "route", "SERVERID", "ROUTEID", "BIGipServer*",
}

// Steers reports whether a cookie of that name only steers: it is no part of an
// anonymous caller's identity.
func (p *Policy) Steers(name string) bool {
	for _, pattern := range steering {
		if Match(pattern, name) {
			return true
		}
	}
	for _, pattern := range p.IgnoreCookies {
		if Match(pattern, name) {
			return true
		}
	}
	return false
}

const expectCookie = "the name of a cookie, or a glob of 1 to 128 characters with a letter or digit in it"

func (r *reader) cookies(n canonical.Node, at string) (out []string) {
	r.each(n, at, func(n canonical.Node, at string) {
		var name string
		if !r.text(n, at, expectCookie, 1, 128, &name) {
			return
		}
		if !isCookieGlob(name) {
			r.wrong(n, at, expectCookie)
			return
		}
		out = append(out, name)
	})
	return out
}

// isCookieGlob reports whether s is a token, in which a star may stand, and names
// something: a lone star would make one caller of all.
func isCookieGlob(s string) bool {
	names := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		names = names || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
	}
	return names && isHeaderName(s) // a token; the star is one of its characters
}
