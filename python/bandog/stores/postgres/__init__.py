"""The operations on a PostgreSQL schema: the statements of ``rust/store/postgres``, in the caller's transaction."""
