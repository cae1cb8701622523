//! Settle: end claims with what their holders report. Calls that wait together are one transaction.
//!
//! Reports that take no rule are one statement, which deletes the claims and inserts the outcomes. Where a row turns out to
//! be locked, and for reports that take rules, the rows are locked first, without waiting, and decided upon here.
//!
//! A claim that somebody holds locked (a transaction of the caller's that settles it too) is tried again until its call has
//! waited long enough, while all others go on. A settlement may be repeated: its token ends a claim once, and is told what
//! it ended.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::time::Instant;
use tokio_postgres::types::Type;

use super::changes::{Changes, LastReport, Settled};
use super::fault::Fault;
use super::inbox::{BUSY_PAUSE, Inbox, patient};
use super::link::Link;
use super::names::Names;
use super::shared::Shared;
use super::transaction::Transaction;
use super::values::{budgets, cancel_request, counters, get, optional_time, sparse, storable, unsigned};
use crate::completion::Reply;
use crate::error::Result;
use crate::job::{Backoff, ClaimName, Counters, Micros, OutcomeKind, Report, Settlement};
use crate::transition::{self, CancelRequest, Next, Rules};

/// A settlement call.
pub(super) struct Request {
    reports: Vec<Pending>,
    asked_at: Instant,
    deadline: Instant,
    reply: Reply<Vec<Result<Settlement>>>,
}

/// One report, and its answer once there is one.
struct Pending {
    claim: ClaimName,
    report: Report,
    answer: Option<Result<Settlement>>,
}

impl Request {
    pub(super) fn new(
        shared: &Shared,
        reports: Vec<(ClaimName, Report)>,
        reply: Reply<Vec<Result<Settlement>>>,
    ) -> Self {
        let reports = reports.into_iter().map(|(claim, report)| Pending { claim, report, answer: None }).collect();
        Self { reports, asked_at: Instant::now(), deadline: shared.settle_deadline(), reply }
    }

    fn times(&self) -> (Instant, Instant) {
        (self.asked_at, self.deadline)
    }

    fn finish(self) {
        self.reply.send(Ok(self.reports.into_iter().filter_map(|pending| pending.answer).collect()));
    }
}

/// Carry out settlement calls until there are no more.
pub(super) async fn serve(shared: Arc<Shared>, inbox: Inbox<Request>) {
    let link = Link::new(&shared, "settle");
    inbox.serve(link, async |link, requests| carry_out(&shared, link, requests).await).await;
}

/// Returns the calls with claims that are locked, as long as they may wait.
async fn carry_out(shared: &Shared, link: &mut Link, mut requests: Vec<Request>) -> Vec<Request> {
    let Some(deadline) = requests.iter().map(|request| request.deadline).min() else { return requests };
    loop {
        let round = round(&requests);
        if round.is_empty() {
            break;
        }
        match attempt(shared, link, deadline, &requests, &round).await {
            Ok(answers) => {
                let (mut locked, mut settled, mut queued) = (false, false, false);
                for ((request, report), answer) in round.into_iter().zip(answers) {
                    match answer {
                        Answer::Given(answer) => {
                            settled |= matches!(answer, Ok(Settlement::Settled(_)));
                            queued |= matches!(
                                answer,
                                Ok(Settlement::Retried { .. } | Settlement::Snoozed { .. } | Settlement::Released)
                            );
                            requests[request].reports[report].answer = Some(answer);
                        }
                        Answer::Locked => locked = true,
                        Answer::NextRound => {}
                    }
                }
                if settled || queued {
                    shared.changed(queued);
                }
                if locked {
                    break;
                }
            }
            Err(Fault::Lost(_)) if Instant::now() < deadline && !shared.gives_up() => {
                tokio::time::sleep(BUSY_PAUSE).await;
            }
            Err(Fault::Busy) => {
                requests = patient(shared, requests, Request::times, |request| give_up(shared, request));
                tokio::time::sleep(BUSY_PAUSE).await;
            }
            Err(fault) => {
                for request in requests {
                    request.reply.send(Err(shared.error(fault.clone(), request.asked_at)));
                }
                return Vec::new();
            }
        }
    }
    let (answered, locked): (Vec<_>, Vec<_>) =
        requests.into_iter().partition(|request| request.reports.iter().all(|pending| pending.answer.is_some()));
    answered.into_iter().for_each(Request::finish);
    patient(shared, locked, Request::times, |request| give_up(shared, request))
}

/// Its claims stayed locked. What was settled beside them stays settled.
fn give_up(shared: &Shared, mut request: Request) {
    let busy = shared.error(Fault::Busy, request.asked_at);
    if request.reports.iter().all(|pending| pending.answer.is_none()) {
        request.reply.send(Err(busy));
        return;
    }
    for pending in &mut request.reports {
        pending.answer.get_or_insert_with(|| Err(busy.clone()));
    }
    request.finish();
}

/// The reports without an answer, each claim once: a second report of the same claim is answered by what the first one did.
fn round(requests: &[Request]) -> Vec<(usize, usize)> {
    let mut claims = HashSet::new();
    let mut round = Vec::new();
    for (index, request) in requests.iter().enumerate() {
        for (place, pending) in request.reports.iter().enumerate() {
            if pending.answer.is_none() && claims.insert(name(&pending.claim)) {
                round.push((index, place));
            }
        }
    }
    round
}

/// What tells claims apart. One job under both of its names is caught later, by its row.
fn name(claim: &ClaimName) -> (Option<i64>, Option<&str>) {
    match claim {
        ClaimName::Number(key) => (Some(key.number), None),
        ClaimName::JobId { job_id, .. } => (None, Some(job_id)),
    }
}

/// What became of a report in one round.
enum Answer {
    Given(Result<Settlement>),
    /// Somebody holds the claim locked.
    Locked,
    /// Another report of the same claim came first.
    NextRound,
}

/// One report of a round.
struct Item<'a> {
    number: i64,
    token: &'a str,
    report: &'a Report,
}

/// The answers, in order.
async fn attempt(
    shared: &Shared,
    link: &mut Link,
    deadline: Instant,
    requests: &[Request],
    round: &[(usize, usize)],
) -> Result<Vec<Answer>, Fault> {
    let pending: Vec<&Pending> = round.iter().map(|(request, report)| &requests[*request].reports[*report]).collect();
    let names = Names::resolve(shared, link, deadline, pending.iter().map(|pending| &pending.claim)).await?;
    let mut items: Vec<Item<'_>> = Vec::with_capacity(pending.len());
    let mut seen = HashSet::new();
    // The second of two names for one job waits for the next round.
    let mut first = Vec::with_capacity(pending.len());
    for pending in &pending {
        let token = pending.claim.lease_token();
        let number = names.number(&pending.claim).ok().filter(|_| storable(token));
        first.push(number.is_none_or(|number| seen.insert(number)));
        if let Some(number) = number.filter(|_| first.last() == Some(&true)) {
            items.push(Item { number, token, report: &pending.report });
        }
    }
    // Rows are locked in this order, by everybody.
    items.sort_unstable_by_key(|item| item.number);
    let mut answers = match settle(shared, link, deadline, &items, false).await {
        Err(Fault::Busy) => settle(shared, link, deadline, &items, true).await?,
        other => other?,
    };
    let missing: Vec<&Item<'_>> = items.iter().filter(|item| !answers.contains_key(&item.number)).collect();
    let mut locked = HashSet::new();
    if !missing.is_empty() {
        locked = recorded(shared, link, deadline, &missing, &mut answers).await?;
    }
    let answer = |(pending, first): (&&Pending, bool)| match names.number(&pending.claim) {
        Err(error) => Answer::Given(Err(error)),
        Ok(_) if !first => Answer::NextRound,
        Ok(number) if locked.contains(&number) => Answer::Locked,
        Ok(number) => Answer::Given(Ok(answers.get(&number).cloned().unwrap_or(Settlement::Stale))),
    };
    Ok(pending.iter().zip(first).map(answer).collect())
}

/// One transaction: first what takes no rule, then, and last, what does. Returns the settlements of the claims that held.
async fn settle(
    shared: &Shared,
    link: &mut Link,
    deadline: Instant,
    items: &[Item<'_>],
    careful: bool,
) -> Result<HashMap<i64, Settlement>, Fault> {
    let simple =
        |item: &&Item<'_>| !careful && matches!(item.report, Report::Completed { .. } | Report::OutcomeUnknown { .. });
    let plain: Vec<&Item<'_>> = items.iter().filter(simple).collect();
    let ruled: Vec<&Item<'_>> = items.iter().filter(|item| !simple(item)).collect();
    if items.is_empty() {
        return Ok(HashMap::new());
    }
    link.transact(shared.batch(deadline), async |transaction| {
        if ruled.is_empty() {
            return transaction.ending(settle_plain(transaction, shared, &plain)).await;
        }
        let mut settled = match plain.is_empty() {
            true => HashMap::new(),
            false => settle_plain(transaction, shared, &plain).await?,
        };
        settled.extend(settle_ruled(transaction, shared, &ruled).await?);
        Ok(settled)
    })
    .await
}

/// The outcome that a report is, without a rule.
fn outcome(report: &Report) -> (OutcomeKind, Option<&str>, Option<&str>) {
    match report {
        Report::Completed { result } => (OutcomeKind::Completed, result.as_deref(), None),
        Report::OutcomeUnknown { evidence } => (OutcomeKind::OutcomeUnknown, None, evidence.as_deref()),
        _ => (OutcomeKind::Failed, None, None),
    }
}

async fn settle_plain(
    transaction: &Transaction<'_>,
    shared: &Shared,
    items: &[&Item<'_>],
) -> Result<HashMap<i64, Settlement>, Fault> {
    let numbers: Vec<i64> = items.iter().map(|item| item.number).collect();
    let tokens: Vec<&str> = items.iter().map(|item| item.token).collect();
    let outcomes: Vec<_> = items.iter().map(|item| outcome(item.report)).collect();
    let kinds: Vec<&str> = outcomes.iter().map(|(kind, ..)| kind.as_str()).collect();
    let results = sparse(outcomes.iter().map(|(_, result, _)| *result));
    let errors: Vec<&str> = Vec::new();
    let evidence = sparse(outcomes.iter().map(|(.., evidence)| *evidence));
    let params = [
        (&numbers as _, Type::INT8_ARRAY),
        (&tokens as _, Type::TEXT_ARRAY),
        (&kinds as _, Type::TEXT_ARRAY),
        (&results as _, Type::TEXT_ARRAY),
        (&errors as _, Type::TEXT_ARRAY),
        (&evidence as _, Type::TEXT_ARRAY),
    ];
    let rows = transaction.query(&shared.sql.settle, &params).await?;
    let kinds: HashMap<i64, OutcomeKind> = numbers.into_iter().zip(outcomes.iter().map(|(kind, ..)| *kind)).collect();
    let mut settled = HashMap::with_capacity(rows.len());
    for row in &rows {
        let number = get(row, "number")?;
        if let Some(kind) = kinds.get(&number) {
            settled.insert(number, Settlement::Settled(*kind));
        }
    }
    Ok(settled)
}

async fn settle_ruled(
    transaction: &Transaction<'_>,
    shared: &Shared,
    items: &[&Item<'_>],
) -> Result<HashMap<i64, Settlement>, Fault> {
    let numbers: Vec<i64> = items.iter().map(|item| item.number).collect();
    let tokens: Vec<&str> = items.iter().map(|item| item.token).collect();
    let params = [(&numbers as _, Type::INT8_ARRAY), (&tokens as _, Type::TEXT_ARRAY)];
    let rows = transaction.query(&shared.sql.settle_claim, &params).await?;
    let reports: HashMap<i64, &Item<'_>> = items.iter().map(|item| (item.number, *item)).collect();
    let mut changes = Changes::default();
    let mut settled = HashMap::with_capacity(rows.len());
    let mut put_back = Vec::new();
    for row in &rows {
        let number: i64 = get(row, "number")?;
        let Some(item) = reports.get(&number) else { continue };
        let held = Held {
            worker: get(row, "worker")?,
            counters: counters(row)?,
            cancel: cancel_request(row)?,
            rules: Rules { budgets: budgets(row)?, backoff: backoff(row)? },
        };
        let token = Some(item.token.to_owned());
        changes.end(number);
        let next = transition::after_report(
            item.report.clone(),
            held.counters,
            &held.rules,
            held.cancel.as_ref(),
            fastrand::f64(),
        );
        match next {
            Next::Settle { kind, counters, result, error, evidence } => {
                // The report is the kind itself.
                let last = LastReport { token, report: None };
                let worker = Some(held.worker);
                changes.put_outcome(number, Settled { kind, worker, counters, result, error, evidence, last });
                settled.insert(number, Settlement::Settled(kind));
            }
            Next::PutBack { counters, due, error, answer } => {
                let report = answer.map(|answer| transition::record(answer, counters));
                changes.put_ready(number, due, counters, LastReport { token, report }, error);
                put_back.push((number, answer));
            }
        }
    }
    if !changes.is_empty() {
        let due = transaction.committing(changes.write(transaction, shared)).await?;
        for (number, answer) in put_back {
            let at: Option<Micros> = due.get(&number).copied();
            settled.insert(number, answer.map_or(Settlement::Released, |answer| answer.settlement(at)));
        }
    }
    Ok(settled)
}

/// What deciding about a claim takes.
struct Held {
    worker: String,
    counters: Counters,
    cancel: Option<CancelRequest>,
    rules: Rules,
}

fn backoff(row: &tokio_postgres::Row) -> Result<Option<Backoff>, Fault> {
    let base: Option<i64> = get(row, "backoff_base")?;
    Ok(match base {
        Some(base) => Some(Backoff { base, cap: get(row, "backoff_cap")?, jitter: get(row, "backoff_jitter")? }),
        None => None,
    })
}

/// Claims that do not hold. Did their tokens end them earlier? Then the answer that was lost is given again. Returns those
/// that hold all the same, because somebody has them locked.
async fn recorded(
    shared: &Shared,
    link: &mut Link,
    deadline: Instant,
    missing: &[&Item<'_>],
    answers: &mut HashMap<i64, Settlement>,
) -> Result<HashSet<i64>, Fault> {
    let numbers: Vec<i64> = missing.iter().map(|item| item.number).collect();
    let tokens: Vec<&str> = missing.iter().map(|item| item.token).collect();
    let rows = link
        .transact(shared.batch(deadline), async |transaction| {
            let params = [(&numbers as _, Type::INT8_ARRAY), (&tokens as _, Type::TEXT_ARRAY)];
            transaction.last(&shared.sql.settle_recorded, &params).await
        })
        .await?;
    let mut locked = HashSet::new();
    for row in &rows {
        let number: i64 = get(row, "number")?;
        if get(row, "held")? {
            locked.insert(number);
        } else if let Some(report) = get::<Option<&str>>(row, "last_report")? {
            let settlement =
                transition::recorded(report, optional_time(row, "available_at")?, unsigned(row, "attempts")?);
            answers.insert(number, settlement);
        }
    }
    Ok(locked)
}
