"""How fast it is, always beside something else measured in the same run.

python -m bench                      everything
python -m bench append scan          some of it
python -m bench --markdown           the table as docs/benchmarks.md shows it

append   a durable append of 1 KiB, beside os.write + os.fdatasync
writers  eight processes on one log, beside eight that write without a lock
scan     the envelopes of a log, beside the plainest loop over its lines
decode   whole records, beside json.loads alone
last     the last fifty records of 1 GB, beside those of 1 MB
memory   the peak memory of reading 1 GB, beside that of 1 MB
startup  ``turnlog --version``, beside a Python that does nothing; first output and installed size
listing  the sessions of a tree of 1 GB, beside the official SDK's list of them
show_last  ``turnlog show --last 50`` on a session of 1 GB, beside one of 1 MB
ledger   ``turnlog cost`` over a tree of 1 GB, beside ccusage

A machine's absolute speed says little, and what a busy neighbour costs both sides pay: so the two
sides take turns in one loop, and what counts is the ratio. Nothing here asserts; the table says
which bars were met. Data is generated once, from a seed, into .bench/.
"""
