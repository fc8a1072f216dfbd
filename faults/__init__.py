"""Faults injected into logs and sessions on purpose, and what must hold all the same.

    python -m faults                    everything, about half an hour
    python -m faults --slice            a seeded slice of it, two or three minutes
    python -m faults --only sweep       one kind; may be given several times

Every kind of fault is one module with a ``run(arena)`` that gives back rows of one table. What a
machine cannot do (no root, no strace, no compiler) is skipped with a word in that table. The exit
code is 1 if anything acknowledged was lost, anything merged, or any other promise broke.
"""
