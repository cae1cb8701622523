-- Tell the hosts that listen ($1: the channel, named as the schema) that a job was queued. Never in a transaction that does
-- anything else: such ones wait for each other, on the whole server.
SELECT pg_catalog.pg_notify($1, '')
