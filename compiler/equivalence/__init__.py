"""The equivalence check: reads a written artifact back into what each rank gets, and compares it with the plan.

reading.py   what is read: how each node is started, and what each rank gets
stage.py     runs the emitted scripts where commands and the runtime library only record that they were called
environment.py what bash says of its environment
launchers.py what a launcher on a node makes of its words: the ranks
steps.py     what node.sh must do before the ranks start
verbs.py     what stop.sh and its like do, of which no start tells
expected.py  the same facts as .jobc/plan.txt has them
by_rank.py   what is true of several ranks is told once
check.py     both together, and two artifacts beside each other
The reader of an engine's own files lies in the backend's folder (Backend.read_back). A check, not a proof: it says
nothing of what the engine or the runtime library does.
"""
