//! Steps of the clocks: the wall clock that somebody set, and the uptime that began anew with another boot.
//!
//! The file notes where the wall clock stood against the uptime. Whoever finds another offset knows that the clock was set,
//! even if it slept meanwhile or had the file closed.

use rusqlite::Connection;

use super::open;
use crate::clock::{Clock, Instants};
use crate::job::Micros;
use crate::store::sql;

/// How far the wall clock must have moved against the uptime to count as set. Below it, a job is late by no more than this;
/// the slow corrections of a time service (at most 0.5 ms per second) reach it once in half an hour.
const TOLERANCE: Micros = 1_000_000;

/// Where the wall clock stands against the uptime, compared with what the file says: any handle may have noted it, and this
/// one may have slept meanwhile. True where something was written about it.
pub(super) fn look(connection: &Connection, now: Instants) -> rusqlite::Result<bool> {
    let noted = noted(connection)?;
    let offset = now.wall - now.uptime;
    let set = offset.abs_diff(noted) > TOLERANCE.unsigned_abs();
    if set {
        note(connection, now, offset < noted)?;
    }
    Ok(set)
}

/// Wall time minus uptime, when it was last noted.
fn noted(connection: &Connection) -> rusqlite::Result<Micros> {
    connection.prepare_cached(sql::sqlite::CLOCK)?.query_row([], |row| row.get(1))
}

/// Whether the wall clock was set back since it was last noted: the next write transaction puts queued jobs right.
pub(super) fn set_back(connection: &Connection, now: Instants) -> rusqlite::Result<bool> {
    Ok(now.wall - now.uptime < noted(connection)? - TOLERANCE)
}

/// Remember where the wall clock stands against the uptime. After it was set back, what was queued to run at once must not
/// wait until the clock has caught up.
fn note(connection: &Connection, now: Instants, set_back: bool) -> rusqlite::Result<()> {
    if set_back {
        connection.execute(sql::sqlite::RECOVER_CLOCK, [now.wall])?;
    }
    connection.execute(sql::sqlite::CLOCK_OFFSET_SET, [now.wall - now.uptime])?;
    Ok(())
}

/// What changed while nobody had the file open. No holder of a claim outlives the boot that it was made in, and the uptime
/// begins anew with each.
pub(super) fn catch_up(connection: &Connection, clock: &dyn Clock) -> rusqlite::Result<()> {
    let (boot, now) = (clock.boot(), clock.now());
    let known = |connection: &Connection| -> rusqlite::Result<(String, i64)> {
        connection.query_row(sql::sqlite::CLOCK, [], |row| Ok((row.get(0)?, row.get(1)?)))
    };
    let up_to_date = |(known_boot, offset): &(String, i64)| {
        *known_boot == boot && (now.wall - now.uptime).abs_diff(*offset) <= TOLERANCE.unsigned_abs()
    };
    let found = known(connection)?;
    if up_to_date(&found) {
        return Ok(());
    }
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let change = || -> rusqlite::Result<()> {
        let found = known(connection)?;
        if up_to_date(&found) {
            return Ok(()); // another process was faster
        }
        let rebooted = found.0 != boot;
        if rebooted {
            connection.execute(sql::sqlite::RECOVER_BOOT, [])?;
            connection.execute(sql::sqlite::CLOCK_BOOT_SET, [&boot])?;
        }
        let offset = now.wall - now.uptime;
        note(connection, now, rebooted || offset < found.1)
    };
    open::finish(connection, change())
}
