//! Claim: recover what was lost, then give the next due jobs to one worker.
//!
//! Claims that wait together are made in one transaction. A claim whose answer was lost is looked up by its token; where
//! nothing is found then, it may still come to be, and is handed back when it does: nobody knows of it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::fault::Fault;
use super::inbox::{BUSY_PAUSE, Inbox, patient};
use super::levels::{Known, Sole};
use super::link::Link;
use super::read::next_due;
use super::recover::recover;
use super::settle;
use super::shared::Shared;
use super::transaction::{Bound, Transaction};
use super::values::{Json, Time, budgets, counters, factor, get, time};
use crate::completion::{Completion, Reply};
use crate::error::Result;
use crate::job::{Claim, ClaimKey, ClaimName, ClaimRequest, Claimed, Counters, Micros, Recovered, Report, SECOND};
use crate::options::{RECOVERY_BATCH, SHORTEST_LEASE};

/// How many candidates more than asked for are read, to take the place of those that others hold locked.
const SPARE_CANDIDATES: i64 = 20;

/// The same for a claim from the beginning.
const THOROUGH_SPARE_CANDIDATES: i64 = 1_000;

/// How long recovery rests after it met expired claims that others hold locked.
const RECOVERY_REST: Micros = SECOND / 10;

/// How often claims that nobody may know of are looked for.
const ORPHAN_PAUSE: Duration = Duration::from_secs(1);

/// A claim call.
pub(super) struct Request {
    pub(super) asked: ClaimRequest,
    pub(super) lease: Micros,
    pub(super) asked_at: Instant,
    pub(super) deadline: Instant,
    pub(super) reply: Reply<Claimed>,
}

/// Carry out claim calls until there are no more.
pub(super) async fn serve(shared: Arc<Shared>, mut inbox: Inbox<Request>, settle: UnboundedSender<settle::Request>) {
    let link = Link::new(&shared, "claim");
    let mut claimer = Claimer { shared, link, settle, recovery_due: Micros::MIN, orphans: VecDeque::new() };
    while let Some(requests) = claimer.link.idle(inbox.next(None)).await {
        claimer.hand_orphans_back().await;
        claimer.carry_out(requests).await;
    }
    claimer.link.close().await;
}

struct Claimer {
    shared: Arc<Shared>,
    link: Link,
    settle: UnboundedSender<settle::Request>,
    /// By the server's clock: no lease that is known of, and none that was made since, can have expired before.
    recovery_due: Micros,
    orphans: VecDeque<Orphan>,
}

/// A token under which there may be claims that nobody knows of.
struct Orphan {
    lease_token: Arc<str>,
    looked_at: Instant,
    until: Instant,
}

/// What one transaction answered.
struct Made {
    /// Per call.
    answers: Vec<Answer>,
    recovery: Recovered,
    recovery_due: Micros,
}

/// What one claim answered.
enum Answer {
    Claimed(Vec<Claim>),
    /// A lease may have expired, and nothing was claimed.
    RecoveryIsDue,
    /// There is more than the one level that it was to claim from, and nothing was claimed.
    NotSole,
}

impl Claimer {
    async fn carry_out(&mut self, mut requests: Vec<Request>) {
        let mut recovery = Recovered::default();
        let mut recover_first = false;
        while !requests.is_empty() {
            let deadline = requests.iter().map(|request| request.deadline).min().unwrap_or_else(Instant::now);
            match self.attempt(&requests, deadline, recover_first).await {
                Ok(made) => {
                    recovery.recovered.extend(made.recovery.recovered);
                    recovery.interrupted.extend(made.recovery.interrupted);
                    self.recovery_due = made.recovery_due;
                    recover_first = made.answers.iter().any(|answer| matches!(answer, Answer::RecoveryIsDue));
                    let mut left = Vec::new();
                    for (request, answer) in requests.drain(..).zip(made.answers) {
                        let Answer::Claimed(claims) = answer else {
                            left.push(request);
                            continue;
                        };
                        let next_in = match request.asked.look_ahead && claims.len() < request.asked.limit as usize {
                            true => self.look_ahead(&request).await,
                            false => None,
                        };
                        let recovery = std::mem::take(&mut recovery);
                        if !claims.is_empty() || recovery != Recovered::default() {
                            self.shared.changed(!recovery.recovered.is_empty());
                        }
                        request.reply.send(Ok(Claimed { claims, recovery, next_in }));
                    }
                    requests = left;
                }
                // A row was locked that is never waited for, or a deadlock was resolved against us: nothing was changed.
                Err(Fault::Busy) => {
                    requests = patient(
                        &self.shared,
                        requests,
                        |request| (request.asked_at, request.deadline),
                        |request| request.reply.send(Err(self.shared.error(Fault::Busy, request.asked_at))),
                    );
                    tokio::time::sleep(BUSY_PAUSE).await;
                }
                Err(fault @ (Fault::Lost(_) | Fault::Late)) => {
                    for request in requests.drain(..) {
                        self.look_up(request, fault.clone()).await;
                    }
                }
                Err(fault) => {
                    for request in requests.drain(..) {
                        request.reply.send(Err(self.shared.error(fault.clone(), request.asked_at)));
                    }
                }
            }
        }
    }

    async fn attempt(&mut self, requests: &[Request], deadline: Instant, recover_first: bool) -> Result<Made, Fault> {
        let shared = Arc::clone(&self.shared);
        let started = Instant::now();
        let thorough = shared.levels().is_thorough_due();
        let recovery_due = self.recovery_due;
        let made = self
            .link
            .transact(shared.batch(deadline), async |transaction| {
                let (recovery, due) = match recover_first {
                    true => recover_before_claiming(transaction, &shared).await?,
                    false => (Recovered::default(), recovery_due),
                };
                // After it the claim is made, whatever is left for the next call to recover.
                let guard = Time(if recover_first { Micros::MAX } else { due });
                let claims = requests.iter().map(|request| claim(transaction, &shared, request, guard, thorough));
                let answers = transaction.ending_all(claims).await?;
                Ok(Made { answers, recovery, recovery_due: due })
            })
            .await?;
        if thorough {
            let took = started.elapsed();
            shared.levels().was_thorough(took);
        }
        Ok(made)
    }

    /// In how long more is due in the queues of a call. It is only good advice: where it cannot be had, the caller polls.
    async fn look_ahead(&mut self, request: &Request) -> Option<Micros> {
        let shared = Arc::clone(&self.shared);
        let queues = request.asked.queues.as_deref();
        let next = self
            .link
            .transact(shared.patient(request.deadline), async |transaction| {
                next_due(transaction, &shared, queues, true).await
            })
            .await;
        let (now, next) = next.ok()?;
        next.map(|next| (next - now).max(0))
    }

    /// The answer was lost. What was claimed has the token of the call.
    async fn look_up(&mut self, request: Request, fault: Fault) {
        let shared = Arc::clone(&self.shared);
        let token = Arc::clone(&request.asked.lease_token);
        let found = self
            .link
            .transact(shared.snapshot(request.deadline), async |transaction| found(transaction, &shared, &token).await)
            .await;
        match found {
            Ok(claims) if !claims.is_empty() => {
                request.reply.send(Ok(Claimed { claims, ..Claimed::default() }));
            }
            _ => {
                let now = Instant::now();
                let until = now + Duration::from_micros(request.lease.unsigned_abs()).min(Duration::from_secs(600));
                self.orphans.push_back(Orphan { lease_token: token, looked_at: now, until });
                request.reply.send(Err(self.shared.error(fault, request.asked_at)));
            }
        }
    }

    /// Claims that came to be after their caller was told that they had failed go back at once.
    async fn hand_orphans_back(&mut self) {
        let now = Instant::now();
        self.orphans.retain(|orphan| orphan.until > now);
        let Some(orphan) = self.orphans.front().filter(|orphan| now.duration_since(orphan.looked_at) >= ORPHAN_PAUSE)
        else {
            return;
        };
        let (token, until) = (Arc::clone(&orphan.lease_token), orphan.until);
        self.orphans.pop_front();
        let shared = Arc::clone(&self.shared);
        let terms = shared.snapshot(now + Duration::from_secs(1));
        let found = self.link.transact(terms, async |transaction| found(transaction, &shared, &token).await).await;
        self.orphans.push_back(Orphan { lease_token: token, looked_at: Instant::now(), until });
        let claims = found.unwrap_or_default();
        if !claims.is_empty() {
            let reports = claims.into_iter().map(|claim| (ClaimName::Number(claim.key), Report::Release)).collect();
            let (reply, answer) = Completion::pair();
            drop(answer);
            let request = settle::Request::new(&self.shared, reports, reply);
            let _ = self.settle.send(request);
        }
    }
}

/// Recover a batch. Returns also until when no lease can expire: those that are known have an end, and one that is made from
/// now on holds for half a second at least.
async fn recover_before_claiming(transaction: &Transaction<'_>, shared: &Shared) -> Result<(Recovered, Micros), Fault> {
    let started = Instant::now();
    let recovered = recover(transaction, shared, RECOVERY_BATCH).await?;
    let row = transaction.query(&shared.sql.recover_next, &[]).await?;
    let row = row.first().ok_or_else(|| Fault::broken("no time was returned".into()))?;
    let now = time(row, "now")?;
    let next = get::<Option<Time>>(row, "lease_until")?.map_or(Micros::MAX, |until| until.0);
    let count = recovered.recovered.len() + recovered.interrupted.len();
    if count >= RECOVERY_BATCH as usize {
        return Ok((recovered, Micros::MIN));
    }
    // Both read the whole lease table. While that is full of dead rows, they may take one part in twenty of the time.
    let rest = i64::try_from(started.elapsed().as_micros() * 20).unwrap_or(Micros::MAX).min(10 * SECOND);
    let rest = if rest < RECOVERY_REST { 0 } else { rest };
    let due = next.min(now + SHORTEST_LEASE);
    let due = if due <= now { now + RECOVERY_REST } else { due };
    Ok((recovered, due.max(now + rest)))
}

/// Send one claim.
async fn claim(
    transaction: &Transaction<'_>,
    shared: &Shared,
    request: &Request,
    recovery_due: Time,
    thorough: bool,
) -> Result<Answer, Fault> {
    let queues = request.asked.queues.as_deref();
    let sole = match thorough {
        true => None,
        false => shared.levels().sole(queues),
    };
    let rows = match &sole {
        Some(level) => claim_level(transaction, shared, request, recovery_due, level).await?,
        None => claim_all(transaction, shared, request, recovery_due, thorough).await?,
    };
    let Some(first) = rows.first() else { return Err(Fault::broken("a claim returned no row".into())) };
    if get(first, "recovery_is_due")? {
        return Ok(Answer::RecoveryIsDue);
    }
    let claimed_at = time(first, "now")?;
    let mut levels = shared.levels();
    if sole.is_some() && !get::<bool>(first, "is_sole")? {
        levels.was_not_sole();
        return Ok(Answer::NotSole);
    }
    let mut claims = Vec::with_capacity(rows.len());
    for row in &rows {
        if get::<Option<i64>>(row, "number")?.is_none() {
            continue;
        }
        let claim = read(row, &request.asked.lease_token, claimed_at, counters(row)?)?;
        if !get::<bool>(row, "late")? {
            levels.claimed(&claim.queue, claim.priority, time(row, "available_at")?);
        }
        claims.push(claim);
    }
    Ok(Answer::Claimed(claims))
}

/// From whatever there is.
async fn claim_all(
    transaction: &Transaction<'_>,
    shared: &Shared,
    request: &Request,
    recovery_due: Time,
    thorough: bool,
) -> Result<Vec<Row>, Fault> {
    let asked = &request.asked;
    let queues = asked.queues.as_deref();
    let known = match thorough {
        true => Known::default(),
        false => shared.levels().known(queues),
    };
    let limit = i64::from(asked.limit);
    let candidates = limit + if thorough { THOROUGH_SPARE_CANDIDATES } else { SPARE_CANDIDATES };
    let params: [Bound<'_>; 11] = [
        (&known.queues, Type::TEXT_ARRAY),
        (&known.priorities, Type::INT4_ARRAY),
        (&known.since, Type::TIMESTAMPTZ_ARRAY),
        (&queues.unwrap_or_default(), Type::TEXT_ARRAY),
        (&queues.is_none(), Type::BOOL),
        (&limit, Type::INT8),
        (&&*asked.lease_token, Type::TEXT),
        (&asked.worker, Type::TEXT),
        (&factor(request.lease), Type::FLOAT8),
        (&recovery_due, Type::TIMESTAMPTZ),
        (&candidates, Type::INT8),
    ];
    transaction.query(&shared.sql.claim, &params).await
}

/// From one level, if that is all there is.
async fn claim_level(
    transaction: &Transaction<'_>,
    shared: &Shared,
    request: &Request,
    recovery_due: Time,
    level: &Sole,
) -> Result<Vec<Row>, Fault> {
    let asked = &request.asked;
    let params: [Bound<'_>; 10] = [
        (&level.queue, Type::TEXT),
        (&level.priority, Type::INT4),
        (&level.since, Type::TIMESTAMPTZ),
        (&level.others, Type::TEXT_ARRAY),
        (&asked.queues.is_none(), Type::BOOL),
        (&i64::from(asked.limit), Type::INT8),
        (&&*asked.lease_token, Type::TEXT),
        (&asked.worker, Type::TEXT),
        (&factor(request.lease), Type::FLOAT8),
        (&recovery_due, Type::TIMESTAMPTZ),
    ];
    transaction.query(&shared.sql.claim_level, &params).await
}

/// What was claimed under a token.
async fn found(transaction: &Transaction<'_>, shared: &Shared, token: &Arc<str>) -> Result<Vec<Claim>, Fault> {
    let rows = transaction.query(&shared.sql.claim_found, &[(&&**token, Type::TEXT)]).await?;
    rows.iter().map(|row| read(row, token, time(row, "claimed_at")?, counters(row)?)).collect()
}

fn read(row: &Row, token: &Arc<str>, claimed_at: Micros, counters: Counters) -> Result<Claim, Fault> {
    Ok(Claim {
        key: ClaimKey { number: get(row, "number")?, lease_token: Arc::clone(token) },
        job_id: get(row, "job_id")?,
        queue: get(row, "queue")?,
        lane: get(row, "lane")?,
        priority: get(row, "priority")?,
        payload: get::<Json>(row, "payload")?.0,
        budgets: budgets(row)?,
        timeout: get(row, "timeout")?,
        admitted_at: time(row, "admitted_at")?,
        claimed_at,
        counters,
        last_error: get(row, "last_error")?,
    })
}
