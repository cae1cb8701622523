//! One connection, named after its duty, that is made anew when it breaks.
//!
//! A statement that waits for a row holds back what was sent after it, so each duty has a link of its own, made on first use.
//! Every use has a deadline. A link that missed one is never used again: what it still does is not known.
//!
//! A server has only so many connections, and processes that each hold some and lack one would wait for each other for ever.
//! So a link with nothing to do gives its connection back when another one of its process finds none left, and after a minute
//! in any case: other processes may need it.

use std::cell::Cell;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_postgres::{Client, Row};

use super::address::Address;
use super::connect::{Driving, Duty, connect, stands};
use super::fault::{Fault, Refusal};
use super::place::Standing;
use super::plans::Plans;
use super::shared::Shared;
use super::transaction::{Bound, Terms, Transaction};
use super::{notify, renew};

/// The pause before the first attempt to connect anew, doubled after each that failed.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How often it is made sure that the server still stands as `target_session_attrs` asks for.
const STANDING_PAUSE: Duration = Duration::from_secs(5);

/// How long a goodbye may take.
const GOODBYE: Duration = Duration::from_millis(200);

/// How long a connection is kept that nobody uses. Longer than the longest pause between two renewals.
const KEPT: Duration = Duration::from_secs(60);

/// How long nobody is listened to after a connection was lacking: polling finds what is not heard.
const DEAF: Duration = Duration::from_secs(30);

/// A connection, or the lack of one.
pub(super) struct Link {
    shared: Arc<Shared>,
    duty: &'static str,
    open: Option<Open>,
    failures: u32,
    not_before: Option<Instant>,
    /// Why there is no connection.
    problem: String,
    /// How often any link had been found silent when this one answered last.
    silences: u64,
    /// Whether statements are prepared: by those who do the same again and again, and who try again.
    prepares: bool,
    /// The host to begin with.
    next_host: Cell<usize>,
    /// Whether the first failure to connect is told at once: while opening.
    pub(super) fail_fast: bool,
}

struct Open {
    client: Client,
    driving: Driving,
    plans: Plans,
    /// When it was found to stand as was asked for.
    stood_at: Instant,
    used_at: Instant,
}

impl Link {
    pub(super) fn new(shared: &Arc<Shared>, duty: &'static str) -> Self {
        let prepares = !matches!(duty, "manage" | "migrate");
        Self {
            prepares,
            shared: Arc::clone(shared),
            duty,
            open: None,
            failures: 0,
            not_before: None,
            problem: String::new(),
            silences: 0,
            next_host: Cell::default(),
            fail_fast: false,
        }
    }

    /// One transaction: everything that `body` does, or nothing. Where the link breaks or the deadline passes, what became
    /// of it is not known.
    pub(super) async fn transact<T>(
        &mut self,
        terms: Terms,
        body: impl AsyncFnOnce(&Transaction<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.connect(terms.deadline).await?;
        let Some(open) = &self.open else { return Err(Fault::Lost("not connected".into())) };
        if open.plans.session().is_some() && self.shared.notices.is_pooled() {
            open.plans.give_up();
        }
        let carried_out = async {
            let transaction = Transaction::new(&open.client, &open.plans, terms);
            match body(&transaction).await {
                Ok(answer) => transaction.commit().await.map(|()| answer),
                Err(fault) => {
                    transaction.roll_back().await;
                    Err(fault)
                }
            }
        };
        let silences = self.shared.silences();
        let result = self.shared.within(terms.deadline, pin!(carried_out)).await;
        self.silences = if result.is_some() { silences } else { self.shared.is_silent() };
        let result = self.unless_read_only(result.unwrap_or(Err(Fault::Late)));
        match &result {
            Err(Fault::Lost(problem)) => self.broke(problem),
            Err(Fault::Late) => self.broke("no answer in time"),
            Err(Fault::Unprepared) => {
                log::info!("the {} link prepares no statements: its session changes, as behind a pooler", self.duty);
                open.plans.give_up();
                self.shared.notices.are_pooled();
                return Err(Fault::Busy);
            }
            Ok(_) => {
                self.works();
                self.prepare(terms).await;
            }
            _ => self.works(),
        }
        result
    }

    /// One statement, in a transaction that the server makes for it.
    pub(super) async fn run(&mut self, deadline: Instant, sql: &str, params: &[Bound<'_>]) -> Result<Vec<Row>, Fault> {
        self.connect(deadline).await?;
        let Some(open) = &self.open else { return Err(Fault::Lost("not connected".into())) };
        let params: Vec<_> = params.iter().map(|(value, of)| (*value, of.clone())).collect();
        let silences = self.shared.silences();
        let answer = self.shared.within(deadline, open.client.query_typed(sql, &params)).await;
        self.silences = if answer.is_some() { silences } else { self.shared.is_silent() };
        let result = answer.map_or(Err(Fault::Late), |rows| rows.map_err(|error| Fault::from_driver(&error)));
        let result = self.unless_read_only(result);
        match &result {
            Err(Fault::Lost(problem)) => self.broke(problem),
            Err(Fault::Late) => self.broke("no answer in time"),
            _ => self.works(),
        }
        result
    }

    /// A server that takes no writes any more is left by all links: the others may only read there, and would never notice.
    fn unless_read_only<T>(&self, result: Result<T, Fault>) -> Result<T, Fault> {
        result.map_err(|fault| match fault {
            Fault::ReadOnly(problem) => {
                self.shared.turn_away();
                Fault::Lost(problem)
            }
            fault => fault,
        })
    }

    /// Whether there is a connection, as far as is known.
    pub(super) fn is_open(&self) -> bool {
        self.silences == self.shared.silences() && self.open.as_ref().is_some_and(|open| !open.client.is_closed())
    }

    /// The server's process, where it was asked for.
    pub(super) fn session(&self) -> Option<i32> {
        self.open.as_ref().and_then(|open| open.plans.session())
    }

    /// How often it could not be made, or broke, since it was last of use.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Whether it is too early to connect again.
    pub(super) fn is_resting(&self) -> bool {
        self.not_before.is_some_and(|not_before| not_before > Instant::now())
    }

    /// Wait until it is time to connect again.
    pub(super) async fn rest(&self) {
        if let Some(not_before) = self.not_before {
            sleep_until(not_before).await;
        }
    }

    /// Prepare what has been used often enough. Where that fails, it is done without.
    async fn prepare(&self, terms: Terms) {
        let Some(open) = &self.open else { return };
        let wanted = open.plans.wanted();
        if wanted.is_empty() {
            return;
        }
        let preparing = async {
            let transaction = Transaction::new(&open.client, &open.plans, terms);
            for (sql, types) in wanted {
                let statement = transaction.prepare(&sql, &types).await?;
                open.plans.add(sql, statement);
            }
            transaction.commit().await
        };
        if !matches!(self.shared.within(terms.deadline, pin!(preparing)).await, Some(Ok(()))) {
            open.plans.give_up();
        }
    }

    /// Connect where there is no connection, again and again until the deadline.
    pub(super) async fn connect(&mut self, deadline: Instant) -> Result<(), Fault> {
        if self.open.as_ref().is_some_and(|open| open.client.is_closed()) {
            self.broke("the server closed it");
        }
        if self.open.is_some() && self.silences != self.shared.silences() {
            // What lost the answers of one link may have forgotten this one too. A new one is made in milliseconds; finding
            // out by using it takes until a deadline.
            log::debug!("the {} link is made anew: another one was silent", self.duty);
            self.let_go();
        }
        self.check_standing(deadline).await;
        while self.open.is_none() {
            if let Some(not_before) = self.not_before {
                let rested = self.shared.within(deadline, sleep_until(not_before)).await;
                if rested.is_none() {
                    // Not an attempt: if it counted as one that failed, calls that are shorter than the pause would
                    // lengthen it for ever, and the link would never be made.
                    return Err(Fault::Refused(Refusal::Failed(format!("cannot connect: {}", self.problem))));
                }
            }
            let shared = Arc::clone(&self.shared);
            let attempt = shared.within(deadline, self.try_to_connect()).await;
            match attempt.unwrap_or(Err(Fault::Late)) {
                Ok(()) => {}
                Err(Fault::Refused(refusal)) => return Err(Fault::Refused(refusal)),
                Err(fault) if self.fail_fast => return Err(fault),
                Err(fault) => {
                    if let Fault::Lost(problem) = fault {
                        self.problem = problem;
                        self.pause();
                    } else {
                        // Cut short by the caller's deadline: the next one goes on at once.
                        self.failures = self.failures.saturating_add(1);
                        if self.problem.is_empty() {
                            self.problem = "no answer in time".into();
                        }
                    }
                    let problem = &self.problem;
                    self.shared.answers(false);
                    self.shared.complain(&format!("cannot connect to {}: {problem}", self.address().target));
                    if Instant::now() >= deadline || self.shared.gives_up() {
                        return Err(Fault::Refused(Refusal::Failed(format!("cannot connect: {problem}"))));
                    }
                }
            }
        }
        Ok(())
    }

    /// Wait for something to do, and give the connection back if it is wanted elsewhere meanwhile.
    pub(super) async fn idle<T>(&mut self, next: impl Future<Output = T>) -> T {
        let mut wanted = self.shared.connection_is_lacking.subscribe();
        let mut next = pin!(next);
        loop {
            let kept_until = self.open.as_ref().map_or_else(|| Instant::now() + KEPT, |open| open.used_at + KEPT);
            let wanted = timeout_at(kept_until, wanted.changed());
            match select(next.as_mut(), pin!(wanted)).await {
                Either::Left((next, _)) => return next,
                // Without it, claims would be lost: it comes last.
                Either::Right((Ok(_), _)) if self.duty == renew::DUTY => {}
                Either::Right((Ok(_), _)) if self.duty == notify::DUTY && self.open.is_some() => {
                    self.say_goodbye().await;
                    self.rest_for(DEAF);
                }
                Either::Right(_) => self.say_goodbye().await,
            }
        }
    }

    /// Use it no more.
    pub(super) async fn close(mut self) {
        self.say_goodbye().await;
    }

    /// Leave, and not without a word, which the server would log.
    async fn say_goodbye(&mut self) {
        self.shared.notices.disconnected(self.duty);
        if let Some(Open { client, mut driving, .. }) = self.open.take() {
            log::debug!("the {} link gives its connection back", self.duty);
            drop(client);
            let _ = timeout(GOODBYE, &mut driving.0).await;
        }
    }

    /// A server that has become a standby may stay there, and show how things were: nobody would hear of another job. So it
    /// is asked again now and then.
    async fn check_standing(&mut self, deadline: Instant) {
        let standing = self.address().standing;
        let Some(open) = &mut self.open else { return };
        if standing == Standing::Any || open.stood_at.elapsed() < STANDING_PAUSE {
            return;
        }
        open.stood_at = Instant::now();
        if let Some(Err(trouble)) = self.shared.within(deadline, stands(&open.client, standing)).await {
            let problem = trouble.problem();
            self.broke(&problem);
            self.not_before = None; // there may be another one
            self.shared.turn_away();
        }
    }

    async fn try_to_connect(&mut self) -> Result<(), Fault> {
        let shared = Arc::clone(&self.shared);
        let silences = shared.silences();
        let address = self.address();
        let duty = Duty { name: self.duty, shared: &shared };
        let (client, driving) = connect(address, duty, &self.next_host).await?;
        let plans = match self.prepares {
            true => {
                timeout(address.connect_timeout, Plans::of(&client, shared.lasting())).await.map_err(|_| Fault::Late)?
            }
            false => Plans::default(),
        };
        self.shared.notices.connected(self.duty, plans.session());
        self.open = Some(Open { client, driving, plans, stood_at: Instant::now(), used_at: Instant::now() });
        self.silences = silences;
        self.shared.answers(true);
        self.not_before = None;
        Ok(())
    }

    /// Where this link leads to.
    fn address(&self) -> &Address {
        let address = self.shared.address();
        match &address.listen {
            Some(listen) if self.duty == notify::DUTY => listen,
            _ => address,
        }
    }

    /// It was of use: only then is the next pause a short one again. A server may be connected to and refuse all the same.
    fn works(&mut self) {
        if let Some(open) = &mut self.open {
            open.used_at = Instant::now();
        }
        self.shared.answers(true);
        self.failures = 0;
        self.problem.clear();
    }

    /// Have no connection any more; whether there was one.
    fn let_go(&mut self) -> bool {
        let was_open = self.open.take().is_some();
        if was_open {
            self.shared.notices.disconnected(self.duty);
        }
        was_open
    }

    /// Never use the present connection again.
    fn broke(&mut self, problem: &str) {
        if self.let_go() {
            self.shared.complain(&format!(
                "the {} link to {} was given up and is made anew: {problem}",
                self.duty,
                self.address().target
            ));
            problem.clone_into(&mut self.problem);
            self.pause();
        }
    }

    /// Wait before the next attempt, longer after each failure.
    pub(super) fn pause(&mut self) {
        let full = FIRST_PAUSE.saturating_mul(1 << self.failures.min(10)).min(LONGEST_PAUSE);
        self.failures = self.failures.saturating_add(1);
        self.rest_for(full);
    }

    /// Connect again after half of this time to all of it: not at the same moment as every other link and host.
    fn rest_for(&mut self, longest: Duration) {
        self.not_before = Some(Instant::now() + longest.mul_f64(0.5 + fastrand::f64() / 2.0));
    }
}
