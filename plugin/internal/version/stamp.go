package version

import _ "unsafe" // for go:linkname

// stamp is what the go command wrote into the build, a line for each fact. runtime/debug hands it out too, but its reader needs fmt, which
// would add a twelfth to the module.
//
//go:linkname stamp runtime/debug.modinfo
func stamp() string
