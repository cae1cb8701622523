-- The session, and whether it listens ($1: the channel). Behind a pooler the session is another one each time.
SELECT
    pg_catalog.pg_backend_pid() AS session,
    EXISTS (SELECT FROM pg_catalog.pg_listening_channels() AS heard (channel) WHERE heard.channel = $1) AS listens
