-- The claim on a running job, and the reason with which its cancellation was asked for first.
SELECT lease_token, cancel_reason
FROM bandog_lease
WHERE number = ?1
