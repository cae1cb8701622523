-- Claims leave the lease table. The caller holds their rows locked.
DELETE FROM bandog.lease
WHERE number OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.int8[])
