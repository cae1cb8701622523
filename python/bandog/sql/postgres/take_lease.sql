-- Claims leave the lease table. The caller holds their rows locked.
DELETE FROM bandog.lease
WHERE number = ANY ($1)
