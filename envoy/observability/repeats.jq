# Calls of one tool with the same arguments, of one scope, within ten minutes: out of access logs
# in the format of envoy.yaml. With log_unkeyed also calls that nothing guards.
#
#   jq -n -f envoy/observability/repeats.jq access.log
#
# ran is how many of them reached the server. More than 1 is what to look at: the same was done
# twice, perhaps on purpose; result_ids names what came of each.

600 as $window # seconds, from the first call of a group

| def seconds: sub("\\.[0-9]+Z$"; "Z") | fromdateiso8601;
  def known: . != null and . != "" and . != "-";
  def tally(f): map(f | select(known)) | group_by(.) | map({key: .[0], value: length}) | from_entries;

[inputs | select(type == "object" and (.arguments_hash | known))]
| group_by([.tool, .arguments_hash])
| map(
    sort_by(.time)
    | reduce .[] as $call ([];
        if length > 0 and ($call.time | seconds) - (.[-1][0].time | seconds) <= $window
        then .[-1] += [$call]
        else . + [[$call]]
        end)
    | .[])
| map(select(length > 1) | {
    tool: .[0].tool,
    arguments_hash: .[0].arguments_hash,
    first: .[0].time,
    last: .[-1].time,
    calls: length,
    ran: map(select((.outcome | known | not) or .outcome == "first" or .outcome == "forwarded")) | length,
    outcomes: tally(.outcome),
    sources: tally(.duplicate_source),
    sessions: (map(.session_hash | select(known)) | unique | length),
    keys: (map(.key_hash | select(known)) | unique | length),
    result_ids: (map(.result_id | select(known)) | unique)
  })
| sort_by(-.ran, -.calls)
| .[]
