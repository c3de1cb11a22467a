package guard

var buildInfo = &metric{"callonce_build_info", []string{"version", "revision"}}

// TellBuild sets the gauge that says which build this is. One that ran before in the same process keeps its series: a proxy has no way to take one away.
func (g *Guard) TellBuild(version, revision string) {
	g.counts.gauge("", buildInfo, version, revision).Set(1)
}
