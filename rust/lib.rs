//! The engine of bandog, a durable job queue: claim, settle and recover, with the stores that it runs on.
//!
//! The map, in the order in which a job meets them:
//!
//! - [`job`]: the words: what a job, a claim, a report and an outcome are. Plain data.
//! - [`management`]: the words of looking after stored jobs. Plain data.
//! - [`admission`]: what may be stored, decided before any SQL.
//! - [`json`]: the one canonical form of payloads, results and evidence.
//! - [`transition`]: the state machine: what a report or a lost claim makes of a job. Pure.
//! - [`store`]: the seam to a database, and the SQLite store behind it.
//! - [`engine`]: what lives in this process: leases that are kept, tokens that are aborted.
//! - [`completion`]: one result, delivered once, to a waiting thread or a callback.
//! - `fork`: which process a handle belongs to; `seldom`: what is not said again and again
//! - [`clock`], [`options`], [`error`]: where "now" comes from, settings, and what can go wrong.
//!
//! The feature `python` adds `py`, the boundary to Python. It converts and waits; it decides nothing.

pub mod admission;
pub mod clock;
pub mod completion;
pub mod engine;
pub mod error;
mod fork;
pub mod job;
pub mod json;
pub mod management;
pub mod options;
mod seldom;
pub mod store;
pub mod transition;

#[cfg(feature = "python")]
mod py;
