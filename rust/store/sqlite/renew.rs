//! Renew: prolong claims that still hold.

use rusqlite::params;

use super::rows;
use super::transaction::{Landmark, Transaction};
use crate::error::{Error, Result};
use crate::job::{ClaimName, Micros, Renewal};
use crate::store::sql;

pub(super) fn renew(
    transaction: &Transaction<'_>,
    claims: &[ClaimName],
    lease: Micros,
) -> Result<Vec<Result<Renewal>>> {
    let now = transaction.now().uptime;
    let until = now.saturating_add(lease);
    let mut find = transaction.prepare(sql::sqlite::FIND_CLAIM)?;
    let mut statement = transaction.prepare(sql::sqlite::RENEW)?;
    let mut answers = Vec::with_capacity(claims.len());
    for claim in claims {
        let number = match rows::number_of(transaction, claim) {
            Ok(number) => number,
            Err(error @ Error::JobNotFound { .. }) => {
                answers.push(Err(error));
                continue;
            }
            Err(error) => return Err(error),
        };
        let token = claim.lease_token();
        let Some(held) = rows::held_claim(transaction, &mut find, number, token)? else {
            answers.push(Ok(Renewal::Stale));
            continue;
        };
        // None is changed under a liveness probe, which has no lease to prolong.
        if rows::run(transaction, &mut statement, params![number, token, now, until])? > 0 {
            transaction.wrote(|| Landmark::Lease(number, token.to_owned(), Some(until)));
        }
        answers.push(Ok(Renewal::Renewed { cancel_requested: held.cancel.map(|request| request.reason) }));
    }
    Ok(answers)
}
