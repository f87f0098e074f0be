# shellcheck shell=bash
# table.sh: sourced by preflight.sh. Makes one table, worst first, of what the nodes say (preflight.py), equal nodes folded.

# table NODE…: reads `NODE: line` lines; NODEs are the names before the colon, in rank order, and the names to show unless
# the node says another. Its status is 1 when a check failed or a node did not answer to the end.
table() {
  awk -F '\t' '
    # ---- input: first the nodes, then what they say
    NR == FNR {
      sub(/^.*@/, "")
      order[++nodes] = $0
      place[$0] = nodes
      next
    }
    {
      at = index($0, ": ")
      node = substr($0, 1, at - 1)
      sub(/^.*@/, "", node)
      if (!at || !(node in place)) next # what a client says itself, or an empty line
      node = place[node]
      $0 = substr($0, at + 2) # and its fields anew
      if ($1 == "ok" || $1 == "FAIL") check(node, $1, $2, $3, $4, $5)
      else if ($1 == "same") { value[$2, node] = $3; if (!($2 in hint_of)) { hint_of[$2] = $4; compared[++compares] = $2 } }
      else if ($1 == "name") order[node] = $2
      else if ($1 == "end") ended[node] = 1
      else if ($0 ~ /^(error: |FAIL  )/) { sub(/^(error: |FAIL  )/, ""); said[node] = $0 }
      else if ($0 ~ /^ *hint: /) { sub(/^ *hint: /, ""); advice[node] = $0 }
      else if ($0 != "" && !(node in said)) { last[node] = (node in last) ? last[node] "; " $0 : $0 }
    }

    # ---- one row for each text of a check; of good ones with a number one row for all, that of the least
    function check(node, level, id, text, hint, number,   key) {
      if (level == "ok" && number != "") {
        key = "ok" SUBSEP id
        if (!(key in least)) { least[key] = number + 0; least_text[key] = text; least_node[key] = node }
        else if (text != least_text[key]) {
          differs[key] = 1
          if (number + 0 < least[key]) { least[key] = number + 0; least_text[key] = text; least_node[key] = node }
        }
      } else key = level SUBSEP id SUBSEP text
      if (!(key in row)) { row[key] = ++rows; row_level[rows] = level; row_text[rows] = text; row_hint[rows] = hint; row_key[rows] = key; row_id[rows] = id; if (!(id in seen)) { seen[id] = ++ids; id_at[ids] = id } }
      on[row[key], node] = 1
    }

    # compare ID: the value of most nodes is right, on a tie that of the first node
    function compare(id,   node, v, best, n) {
      for (node = 1; node <= nodes; node++) if ((id, node) in value) {
        v = value[id, node]
        count[id, v]++
        n++
      }
      if (n < 2) return
      for (node = 1; node <= nodes; node++) if ((id, node) in value) {
        v = value[id, node]
        if (best == "" || count[id, v] > count[id, best]) best = v
      }
      for (node = 1; node <= nodes; node++) majority[node] = ((id, node) in value) && value[id, node] == best
      for (node = 1; node <= nodes; node++) if ((id, node) in value) {
        v = value[id, node]
        if (v != best) check(node, "FAIL", id, v ", but " best " on " fold_of_majority(), hint_of[id])
        else if (count[id, best] == n) check(node, "ok", id, "the same on all nodes: " v, "")
      }
    }
    function fold_of_majority(   node) {
      split("", chosen)
      for (node = 1; node <= nodes; node++) if (majority[node]) chosen[node] = 1
      return folded()
    }

    # folded: the nodes in `chosen` as node[1-3,7],login; many single names are cut short
    function folded(   node, name, number, group, groups, out, list, i, shown) {
      groups = 0
      split("", group_at); split("", text_of); split("", from); split("", to); split("", size)
      for (node = 1; node <= nodes; node++) {
        if (!(node in chosen)) continue
        name = order[node]
        if (match(name, /[0-9]+[^0-9]*$/)) {
          number = substr(name, RSTART); tail = number
          sub(/[^0-9]*$/, "", number); sub(/^[0-9]+/, "", tail)
          group = substr(name, 1, RSTART - 1) "\t" tail
        } else { number = ""; group = name "\t" }
        if (!(group in group_at)) { group_at[group] = ++groups; text_of[groups] = group; size[groups] = 0; list_of[groups] = ""; from[groups] = "" }
        i = group_at[group]
        size[i]++
        if (from[i] != "" && number + 0 == to[i] + 1 && length(number) == length(to[i]) + (number ~ /^1(0)*$/ && to[i] ~ /^9+$/)) to[i] = number
        else { close_run(i); from[i] = to[i] = number }
      }
      out = ""
      for (i = 1; i <= groups; i++) {
        close_run(i)
        split(text_of[i], part, "\t")
        list = list_of[i] ~ /[-,]/ ? part[1] "[" list_of[i] "]" part[2] : part[1] list_of[i] part[2]
        if (length(out) + length(list) > 60 && out != "") { out = out " and " (groups - i + 1) " more"; break }
        out = out (out == "" ? "" : ",") list
      }
      return out
    }
    function close_run(i) {
      if (from[i] == "") return
      list_of[i] = list_of[i] (list_of[i] == "" ? "" : ",") (from[i] == to[i] ? from[i] : from[i] "-" to[i])
      from[i] = ""
    }

    function hint_for(text, node) {
      if (match(text, /[^ :]+@[^ :]+: Permission denied/)) return "your key is not on that host: ssh-copy-id " substr(text, RSTART, RLENGTH - 19)
      if (text ~ /Permission denied/) return "your key is not on that host: ssh-copy-id " order[node]
      if (text ~ /Host key verification failed/) return "look at the host, then: ssh-keyscan " order[node] " >> ~/.ssh/known_hosts"
      if (text ~ /Could not resolve|not known|No route to host|timed out|Connection refused/) return "is it up, and is its name right? else leave it out of hosts"
      return "try it by hand: ssh " order[node] " true"
    }

    function print_rows(level, id,   i) {
      for (i = 1; i <= rows; i++) if (row_level[i] == level && row_id[i] == id) print_row(i)
    }
    function print_row(i,   node, where) {
      split("", chosen)
      for (node = 1; node <= nodes; node++) if ((i, node) in on) chosen[node] = 1
      if (row_key[i] in differs) row_text[i] = least_text[row_key[i]] ", the least: " order[least_node[row_key[i]]]
      where = nodes > 1 ? sprintf("%-" width "s  ", where_of[i]) : ""
      printf "%-4s  %s%s\n", row_level[i], where, row_text[i]
      if (row_level[i] == "FAIL" && row_hint[i] != "") printf "      hint: %s\n", row_hint[i]
    }

    END {
      for (node = 1; node <= nodes; node++) if (!(node in ended)) {
        text = (node in said) ? said[node] : (node in last) ? last[node] : ""
        sub(/^; /, "", text)
        check(node, "FAIL", "answer", text == "" ? "no answer" : "no answer: " text, (node in advice) ? advice[node] : hint_for(text, node))
      }
      for (i = 1; i <= compares; i++) compare(compared[i])
      for (i = 1; i <= rows; i++) {
        split("", chosen)
        for (node = 1; node <= nodes; node++) if ((i, node) in on) chosen[node] = 1
        where_of[i] = folded()
        if (length(where_of[i]) > width) width = length(where_of[i])
        if (row_level[i] == "FAIL") failed++
      }
      print_rows("FAIL", "answer")
      for (k = 1; k <= ids; k++) if (id_at[k] != "answer") print_rows("FAIL", id_at[k])
      for (k = 1; k <= ids; k++) print_rows("ok", id_at[k])
      if (failed) printf "not ready: %d of %d checks failed\n", failed, rows
      else printf "ready: %d node%s\n", nodes, (nodes > 1 ? "s" : "")
      exit failed ? 1 : 0
    }
  ' <(printf '%s\n' "$@") -
}
