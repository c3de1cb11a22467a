#!/bin/sh
# Lets the calls that run through an Envoy end before it is stopped: SIGTERM alone cuts them,
# and a call that is cut has an unknown outcome.
#
#   envoy/drain.sh [ADMIN [SECONDS]]    # http://127.0.0.1:9901 and 60
#
# Tells Envoy to drain (more and more answers say "Connection: close", and its listeners close
# after --drain-time-s), and returns when no request runs any more, at the latest after
# SECONDS. Send SIGTERM then. Streams on which a server speaks first (GET) keep it until the
# end of SECONDS; they lose nothing by being cut.
set -eu
admin=${1:-http://127.0.0.1:9901}
left=${2:-60}
curl -sSf -o /dev/null -X POST "$admin/drain_listeners?graceful"
while [ "$left" -gt 0 ]; do
  sleep 1
  left=$((left - 1))
  running=$(curl -sSf "$admin/stats?filter=^http.mcp.downstream_rq_active\$" | sed 's/.*: //')
  if [ "${running:-0}" -eq 0 ]; then
    exit 0
  fi
done
echo "drain.sh: $running requests still run" >&2
exit 1
