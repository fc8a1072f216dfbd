"""Decoder, salvage and reader under atheris: any bytes at all, and none may crash or hang them.

python -m fuzz                           ten million executions, two processes at a time
python -m fuzz --executions 20_000_000 --target reader

seeds.py    small logs of every kind, good and broken, and the dictionary: where it starts
mutate.py   how good records are spoiled: a field replaced, a record glued, cut, spliced
oracles.py  what must hold for every line: the promise P4, written as assertions
reading.py  the same for whole logs
worker.py   one libFuzzer process for one oracle
covered.py  which lines and branches of our own modules the found inputs reach
__main__.py the plan, the processes, the report

Everything it makes stands in .fuzz/: corpus/ (kept and grown from run to run), findings/ (the
inputs that broke something, each with its traceback; later runs replay them) and history.jsonl
(one line a run; the sum is printed, since a release asks for a hundred million in all).
"""
