//! Renew: prolong claims that still hold. Calls that wait together are one statement, on a link that does nothing else.
//!
//! A row that somebody holds locked (a transaction of the caller's that settles the claim) is not waited for: it is answered
//! as busy, and tried again by whoever keeps the claim, while all others are prolonged.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use tokio::time::Instant;
use tokio_postgres::types::Type;

use super::fault::Fault;
use super::inbox::{BUSY_PAUSE, Inbox, patient};
use super::link::Link;
use super::names::Names;
use super::shared::Shared;
use super::transaction::Transaction;
use super::values::{cancel_request, factor, get, storable};
use crate::completion::Reply;
use crate::error::{Error, Result};
use crate::job::{ClaimName, Micros, Renewal};

/// The name of the link.
pub(super) const DUTY: &str = "renew";

/// A renewal call.
pub(super) struct Request {
    pub(super) claims: Vec<ClaimName>,
    pub(super) lease: Micros,
    pub(super) asked_at: Instant,
    pub(super) deadline: Instant,
    pub(super) reply: Reply<Vec<Result<Renewal>>>,
}

/// Carry out renewal calls until there are no more.
pub(super) async fn serve(shared: Arc<Shared>, inbox: Inbox<Request>) {
    let link = Link::new(&shared, DUTY);
    inbox.serve(link, async |link, requests| carry_out(&shared, link, requests).await).await;
}

/// Returns the calls all of whose claims are locked, as long as they may wait.
async fn carry_out(shared: &Shared, link: &mut Link, mut requests: Vec<Request>) -> Vec<Request> {
    let Some(deadline) = requests.iter().map(|request| request.deadline).min() else { return Vec::new() };
    let mut answers = loop {
        match attempt(shared, link, &requests, deadline).await {
            Ok(answers) => break answers,
            // To prolong a claim twice does no harm.
            Err(Fault::Lost(_)) if Instant::now() < deadline && !shared.gives_up() => {
                tokio::time::sleep(BUSY_PAUSE).await;
            }
            Err(Fault::Busy) => {
                let give_up = |request: Request| request.reply.send(Err(shared.error(Fault::Busy, request.asked_at)));
                requests = patient(shared, requests, |request| (request.asked_at, request.deadline), give_up);
                if requests.is_empty() {
                    return requests;
                }
                tokio::time::sleep(BUSY_PAUSE).await;
            }
            Err(fault) => {
                for request in requests {
                    request.reply.send(Err(shared.error(fault.clone(), request.asked_at)));
                }
                return Vec::new();
            }
        }
    };
    let mut waiting = Vec::new();
    for request in requests.into_iter().rev() {
        let own = answers.split_off(answers.len() - request.claims.len());
        let locked = !own.is_empty() && own.iter().all(|answer| matches!(answer, Err(Error::StoreBusy { .. })));
        // Several claims are the keeper's, who comes again by itself.
        if locked && request.claims.len() == 1 {
            let patience = request.asked_at + shared.options.busy_timeout;
            if Instant::now() < patience.min(request.deadline) && !shared.gives_up() {
                waiting.push(request);
            } else {
                request.reply.send(Err(shared.error(Fault::Busy, request.asked_at)));
            }
        } else {
            request.reply.send(Ok(own));
        }
    }
    waiting
}

async fn attempt(
    shared: &Shared,
    link: &mut Link,
    requests: &[Request],
    deadline: Instant,
) -> Result<Vec<Result<Renewal>>, Fault> {
    let names: Vec<&ClaimName> = requests.iter().flat_map(|request| &request.claims).collect();
    let resolved = Names::resolve(shared, link, deadline, names.iter().copied()).await?;
    let (mut numbers, mut tokens) = (Vec::new(), Vec::new());
    // By the length of the lease, which is nearly always one.
    let mut lengths: BTreeMap<Micros, (Vec<i64>, Vec<&str>)> = BTreeMap::new();
    let mut seen = HashSet::new();
    for request in requests {
        for claim in &request.claims {
            if let Ok(number) = resolved.number(claim)
                && storable(claim.lease_token())
                && seen.insert((number, claim.lease_token()))
            {
                numbers.push(number);
                tokens.push(claim.lease_token());
                let length = lengths.entry(request.lease).or_default();
                length.0.push(number);
                length.1.push(claim.lease_token());
            }
        }
    }
    let renewed: HashMap<(i64, String), Option<String>> = link
        .transact(shared.batch(deadline), async |transaction| {
            let renewals = lengths.iter().map(|(lease, named)| renew(transaction, shared, *lease, named));
            let renewed = transaction.ending_all(renewals).await?;
            Ok(renewed.into_iter().flatten().collect())
        })
        .await?;
    let locked = if renewed.len() < numbers.len() {
        locked(shared, link, deadline, &numbers, &tokens).await?
    } else {
        HashSet::new()
    };
    let answer = |claim: &ClaimName| {
        let number = resolved.number(claim)?;
        let key = (number, claim.lease_token().to_owned());
        match renewed.get(&key) {
            Some(reason) => Ok(Renewal::Renewed { cancel_requested: reason.clone() }),
            None if locked.contains(&key) => Err(Error::StoreBusy { target: shared.target().to_owned(), waited_ms: 0 }),
            None => Ok(Renewal::Stale),
        }
    };
    Ok(names.into_iter().map(answer).collect())
}

/// Prolong claims by one length. Returns those that held, and for what reason they are to be cancelled.
async fn renew(
    transaction: &Transaction<'_>,
    shared: &Shared,
    lease: Micros,
    (numbers, tokens): &(Vec<i64>, Vec<&str>),
) -> Result<Vec<((i64, String), Option<String>)>, Fault> {
    let lease = factor(lease);
    let params = [(numbers as _, Type::INT8_ARRAY), (tokens as _, Type::TEXT_ARRAY), (&lease as _, Type::FLOAT8)];
    let rows = transaction.query(&shared.sql.renew, &params).await?;
    rows.iter()
        .map(|row| {
            let claim = (get(row, "number")?, get(row, "lease_token")?);
            Ok((claim, cancel_request(row)?.map(|request| request.reason)))
        })
        .collect()
}

/// Of the claims that were not prolonged, those that hold all the same.
async fn locked(
    shared: &Shared,
    link: &mut Link,
    deadline: Instant,
    numbers: &[i64],
    tokens: &[&str],
) -> Result<HashSet<(i64, String)>, Fault> {
    link.transact(shared.batch(deadline), async |transaction| {
        let params = [(&numbers as _, Type::INT8_ARRAY), (&tokens as _, Type::TEXT_ARRAY)];
        let rows = transaction.last(&shared.sql.renew_locked, &params).await?;
        rows.iter().map(|row| Ok((get(row, "number")?, get(row, "lease_token")?))).collect()
    })
    .await
}
