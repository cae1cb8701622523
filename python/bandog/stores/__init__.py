"""Stores in pure Python: the operations on a connection that the host owns.

The statements are those of the native stores, read from the same files; the rules are twins of the engine's, held to
it by tests on the same sequences. What an operation does is one generator of statements per database, whoever runs
them:

- ``connections``, ``drivers``, ``frameworks``, ``adapting``: the caller's object, of whatever library, as something
  that runs statements
- ``driving``: carrying an operation out, in this thread or in this task
- ``statements``: the text of a statement, as a driver wants it
- ``sqlite``, ``postgres``: the operations, statement by statement
- ``admission``, ``transition``, ``records``: what may be stored, what a report makes of a job, what is answered
- ``running``: which jobs run in this process, for the runtimes that must know of a claim that was settled here
"""
