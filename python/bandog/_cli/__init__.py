"""The command line, one idea per file. Needs the extra ``cli``; :mod:`bandog.cli` looks whether it is there.

``group`` has the verbs: ``producing`` admits jobs, ``worker`` runs them, ``pulling`` claims and settles them by hand,
``looking`` shows them, ``managing`` changes what is stored, ``migrating`` is about tables. ``verb`` is what all of them
have in common, ``arguments`` reads what was typed, ``session`` opens the store, ``showing`` and ``records`` make what
is printed, and ``exits`` has the exit codes and errors. Of the worker, ``working`` is what the verb does, ``executors``
finds what it runs, ``logs`` and ``progress`` show how far it is; they are loaded by that verb alone.
"""
