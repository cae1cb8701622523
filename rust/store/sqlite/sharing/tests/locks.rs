//! Both sides see each other's locks, and neither side's close costs the other one its locks.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use rusqlite::OpenFlags;

use super::{
    Other, PRESENCE, RESERVED, Scratch, SetWhenDropped, WAL_WRITE, assert_intact, connect, count, disconnect, is_busy,
    open_flags, run,
};

/// In each journal mode: the file that carries the write lock, and the byte.
fn write_lock(scratch: &Scratch, journal_mode: &str) -> (Other, i64) {
    match journal_mode {
        "wal" => (Other::open(&scratch.shared_memory()), WAL_WRITE),
        _ => (Other::open(&scratch.database()), RESERVED),
    }
}

#[test]
fn only_one_side_holds_the_write_lock() {
    for journal_mode in ["wal", "delete"] {
        let scratch = Scratch::new();
        let ours = connect(&scratch.database(), journal_mode);
        let (other, byte) = write_lock(&scratch, journal_mode);

        run(&ours, "begin immediate; insert into event values (1)");
        assert!(!other.lock(byte), "{journal_mode}: refused to the other side while we write");
        run(&ours, "commit");

        assert!(other.lock(byte), "{journal_mode}: free after the commit");
        assert!(is_busy(&ours, "begin immediate"), "{journal_mode}: refused to us while the other side writes");
        other.unlock(byte);
        assert!(!is_busy(&ours, "begin immediate"), "{journal_mode}: free again");
    }
}

#[test]
fn a_foreign_open_and_close_leaves_our_locks() {
    for journal_mode in ["wal", "delete"] {
        let scratch = Scratch::new();
        let ours = connect(&scratch.database(), journal_mode);
        run(&ours, "begin immediate; insert into event values (1)");
        drop(Other::open(&scratch.database()));
        if journal_mode == "wal" {
            drop(Other::open(&scratch.shared_memory()));
        }
        let (other, byte) = write_lock(&scratch, journal_mode);
        assert!(other.sees_lock(byte), "{journal_mode}");
        run(&ours, "commit");
    }
}

#[test]
fn our_close_leaves_foreign_locks() {
    let scratch = Scratch::new();
    let first = connect(&scratch.database(), "delete");
    let other = Other::open(&scratch.database());
    assert!(other.lock(RESERVED));
    let second = connect(&scratch.database(), "delete");
    assert_eq!(count(&second), 0);
    disconnect(first);
    disconnect(second);
    for _ in 0..10 {
        disconnect(connect(&scratch.database(), "delete"));
    }
    assert!(other.still_holds(RESERVED));
}

#[test]
fn closing_the_last_connection_drops_our_locks() {
    let scratch = Scratch::new();
    let ours = connect(&scratch.database(), "wal");
    // Keeps the shared memory from being deleted by the close: someone else seems to use it.
    let other = Other::open(&scratch.shared_memory());
    assert!(other.sees_lock(PRESENCE));
    assert!(other.request(libc::F_SETLK, libc::F_RDLCK, PRESENCE).is_some());
    run(&ours, "insert into event values (1)");
    disconnect(ours);
    assert!(scratch.shared_memory().exists());
    assert!(!other.sees_lock(PRESENCE), "the presence lock went with the close");
    assert!(!Other::open(&scratch.database()).sees_lock(0x4000_0002), "and so did the shared lock");
}

#[test]
fn our_connections_share_their_locks() {
    let scratch = Scratch::new();
    let writer = connect(&scratch.database(), "delete");
    let reader = connect(&scratch.database(), "delete");
    let other = Other::open(&scratch.database());
    run(&reader, "begin; select * from event");
    run(&writer, "begin immediate; insert into event values (1)");
    assert!(is_busy(&reader, "update event set number = 2"), "one writer among ours");
    assert_eq!(count(&reader), 0);
    run(&reader, "rollback");
    disconnect(reader);
    assert!(other.sees_lock(RESERVED), "a sibling's close keeps the writer's lock");
    run(&writer, "commit");
    assert!(!other.sees_lock(RESERVED));
}

#[test]
fn a_read_only_connection_that_came_first_does_not_lock_the_writer_out() {
    for journal_mode in ["wal", "delete"] {
        let scratch = Scratch::new();
        disconnect(connect(&scratch.database(), journal_mode));
        // A copy has another inode, so that no writable descriptor of it is parked yet.
        let fresh = scratch.database().with_extension("copy");
        std::fs::copy(scratch.database(), &fresh).expect("copy");
        let reader = open_flags(&fresh, OpenFlags::SQLITE_OPEN_READ_ONLY);
        run(&reader, "begin; select * from event");
        let writer = connect(&fresh, journal_mode);
        run(&writer, "begin immediate; insert into event values (1)");
        assert!(is_busy(&writer, "commit") == (journal_mode == "delete"), "a reader blocks only a rollback journal");
        run(&reader, "rollback");
        if journal_mode == "delete" {
            run(&writer, "commit");
        }
        assert_eq!(count(&reader), 1);
    }
}

#[test]
fn two_sides_never_write_at_once() {
    const WRITES: usize = 400;
    for journal_mode in ["wal", "delete"] {
        let scratch = Scratch::new();
        let keeper = connect(&scratch.database(), journal_mode);
        let (writing, done) = (AtomicBool::new(false), AtomicBool::new(false));
        let foreign_turns = AtomicUsize::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                let _done = SetWhenDropped(&done);
                let database = scratch.database();
                for _ in 0..WRITES / 50 {
                    let ours = connect(&database, journal_mode);
                    for _ in 0..50 {
                        run(&ours, "begin immediate; insert into event values (1)");
                        assert!(!writing.swap(true, Ordering::SeqCst), "the other side is writing");
                        thread::yield_now();
                        writing.store(false, Ordering::SeqCst);
                        run(&ours, "commit");
                    }
                    disconnect(ours);
                }
            });
            scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    let reader = connect(&scratch.database(), journal_mode);
                    count(&reader);
                    disconnect(reader);
                }
            });
            scope.spawn(|| {
                // Opened and closed each time, which drops all locks of this process that POSIX knows.
                while !done.load(Ordering::SeqCst) {
                    let (other, byte) = write_lock(&scratch, journal_mode);
                    if other.lock(byte) {
                        assert!(!writing.swap(true, Ordering::SeqCst), "our side is writing");
                        thread::yield_now();
                        writing.store(false, Ordering::SeqCst);
                        other.unlock(byte);
                        foreign_turns.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        });
        assert!(foreign_turns.load(Ordering::SeqCst) > 0, "{journal_mode}: the other side had its turns");
        assert_eq!(usize::try_from(count(&keeper)), Ok(WRITES));
        assert_intact(&keeper);
    }
}
