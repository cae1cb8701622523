"""The operations on an SQLite file: the statements of ``rust/store/sqlite``, in the same order."""
