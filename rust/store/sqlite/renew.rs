//! Renew: prolong claims that still hold.

use rusqlite::params;

use super::rows;
use super::transaction::{Landmark, Transaction};
use crate::error::{Error, Result};
use crate::job::{ClaimName, Micros, Renewal};
use crate::store::sql;

pub(super) fn renew(transaction: &Transaction<'_>, claims: &[ClaimName], lease: Micros) -> Result<Vec<Result<Renewal>>> {
    let now = transaction.now().uptime;
    let until = now.saturating_add(lease);
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
        let renewed = rows::one_row(transaction, &mut statement, params![number, token, now, until], |row| {
            let asked: Option<Micros> = row.get(0)?;
            let reason: Option<String> = row.get(1)?;
            Ok(asked.map(|_| reason.unwrap_or_default()))
        })?;
        answers.push(Ok(match renewed {
            Some(cancel_requested) => {
                transaction.wrote(|| Landmark::Lease(number, token.to_owned(), until));
                Renewal::Renewed { cancel_requested }
            }
            None => Renewal::Stale,
        }));
    }
    Ok(answers)
}
