//! What lives in this process: the store, and the claims that are kept in it.
//!
//! - [`lease`]: the thread that renews claims
//! - [`pool`]: claimed jobs for a worker's executors, and their reports back; in `slots` they wait, `feeder` is the thread
//!   that claims and records
//! - [`events`]: what a pool tells of its work
//! - [`wake`]: the thread that tells the host of changes
//! - [`cancellation`]: the token that tells an executor to stop

pub mod cancellation;
pub mod events;
mod feeder;
pub mod lease;
pub mod pool;
mod slots;
#[cfg(test)]
mod tests;
pub mod wake;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use self::cancellation::CancellationToken;
use self::events::EventSink;
use self::lease::{Keep, LeaseKeeper};
use self::pool::{Pool, PoolOptions};
use self::wake::{Wake, WakeCallback};
use crate::error::{Error, Result};
use crate::fork::Generation;
use crate::job::{Claim, ClaimName, Micros, Report};
use crate::store::Store;

/// An open store, and the keeper of the claims that this process has made in it.
pub struct Engine {
    store: Arc<dyn Store>,
    keeper: Arc<LeaseKeeper>,
    wake: Mutex<Option<Wake>>,
    closed: AtomicBool,
    opened_in: Generation,
}

impl Drop for Engine {
    fn drop(&mut self) {
        if self.opened_in.is_current() {
            self.close();
        } else {
            // In a forked child: threads that are not here cannot be joined, and the locks may be held for ever.
            std::mem::forget(Arc::clone(&self.store));
        }
    }
}

impl Engine {
    /// Run on an open store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        let keeper = Arc::new(LeaseKeeper::new(Arc::clone(&store)));
        Self { store, keeper, wake: Mutex::default(), closed: AtomicBool::new(false), opened_in: Generation::current() }
    }

    /// Whether this is the process that opened it, and not a forked child of it.
    ///
    /// # Errors
    /// `Forked` in the child: no other method may be called there.
    pub fn check_process(&self) -> Result<()> {
        self.opened_in.check()
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &dyn Store {
        self.store.as_ref()
    }

    /// The keeper of leases.
    #[must_use]
    pub fn keeper(&self) -> &LeaseKeeper {
        &self.keeper
    }

    /// Keep a fresh claim; `None` where it comes late ([`Keep::is_late`]). Such a claim is to be released.
    ///
    /// # Errors
    /// As [`LeaseKeeper::keep`].
    pub fn keep_fresh(&self, claim: Keep) -> Result<Option<CancellationToken>> {
        if claim.is_late(self.store.clock().now().uptime) {
            return Ok(None);
        }
        self.keeper.keep(claim).map(Some)
    }

    /// Start a pool that claims from this store.
    ///
    /// # Errors
    /// As [`Pool::start`]; `Closed` after closing.
    pub fn start_pool(
        &self,
        options: PoolOptions,
        events: Option<EventSink>,
        notify: Option<Box<dyn Fn() + Send + Sync>>,
    ) -> Result<Pool> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::Closed);
        }
        Pool::start(Arc::clone(&self.store), Arc::clone(&self.keeper), options, events, notify)
    }

    /// Give claims of a probing runtime that is gone a lease. Where there are none, nothing is written.
    ///
    /// # Errors
    /// Whatever the store fails with.
    pub fn adopt(&self, lease: Micros) -> Result<()> {
        match self.store.probe(None).wait()? {
            None => Ok(()),
            Some(_) => self.store.adopt(lease).wait(),
        }
    }

    /// Hand claims back that nobody will work on. Does not wait.
    pub fn release(&self, claims: Vec<Claim>) {
        if !claims.is_empty() {
            let reports = claims.into_iter().map(|claim| (ClaimName::Number(claim.key), Report::Release)).collect();
            drop(self.store.settle(reports));
        }
    }

    /// Tell the host of changes, in place of an earlier callback; `None` for no more.
    ///
    /// # Errors
    /// As [`Wake::start`].
    pub fn set_wake(&self, callback: Option<WakeCallback>) -> Result<()> {
        let mut wake = self.wake.lock().unwrap_or_else(PoisonError::into_inner);
        *wake = None;
        if let Some(callback) = callback {
            if self.closed.load(Ordering::SeqCst) {
                return Err(Error::Closed);
            }
            *wake = Some(Wake::start(Arc::clone(&self.store), callback)?);
        }
        Ok(())
    }

    /// Stop renewing and waking, then close the store.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.wake.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.keeper.stop();
        self.store.close();
    }
}
