//! A forked child starts with nothing of its parent's, and the parent loses nothing.

use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::super::{enter, generation, usable};
use super::{
    Other, RESERVED, Scratch, SetWhenDropped, WAL_WRITE, assert_intact, connect, count, disconnect, is_busy, isolated,
    run,
};

/// Forks. The child runs `body` and exits without running any destructor of its parent's values.
fn fork(body: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the child uses what is safe after fork (the C library's allocator is) and what the fork handlers prepared.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: ends a child that hangs.
            unsafe { libc::alarm(30) };
            let succeeded = catch_unwind(AssertUnwindSafe(body)).is_ok();
            // SAFETY: ends this process.
            unsafe { libc::_exit(i32::from(!succeeded)) }
        }
        child => {
            assert!(child > 0, "fork failed");
            child
        }
    }
}

fn wait(child: libc::pid_t) {
    let mut status = 0;
    // SAFETY: `status` is a valid place for the answer.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child failed (status {status:#x}; 0xe: it hung)");
}

#[test]
fn child_and_grandchild_write_beside_their_parent() {
    isolated(module_path!(), "child_and_grandchild_write_beside_their_parent", || {
        for journal_mode in ["wal", "delete"] {
            let scratch = Scratch::new();
            let database = scratch.database();
            let ours = connect(&database, journal_mode);
            let write = |connection: &rusqlite::Connection| {
                for _ in 0..100 {
                    run(connection, "insert into event values (1)");
                }
            };
            // Locks are held and counted at the moment of the fork.
            run(&ours, "begin; select * from event");
            let child = fork(|| {
                assert_eq!(generation(), 1);
                let fresh = connect(&database, journal_mode);
                write(&fresh);
                let grandchild = fork(|| {
                    assert_eq!(generation(), 2);
                    let fresh = connect(&database, journal_mode);
                    write(&fresh);
                    disconnect(fresh);
                });
                write(&fresh);
                wait(grandchild);
                write(&fresh);
                assert!(usable());
                disconnect(fresh);
            });
            run(&ours, "commit");
            write(&ours);
            wait(child);
            write(&ours);
            assert_eq!(generation(), 0);
            assert_eq!(count(&ours), 600);
            assert_intact(&ours);
            disconnect(ours);
        }
    });
}

#[test]
fn a_child_has_neither_descriptors_nor_mappings_of_its_parent() {
    isolated(module_path!(), "a_child_has_neither_descriptors_nor_mappings_of_its_parent", || {
        let scratch = Scratch::new();
        let ours = connect(&scratch.database(), "wal");
        run(&ours, "insert into event values (1)");
        let other = Other::open(&scratch.database());
        assert!(scratch.open_descriptors() >= 4, "database, WAL, shared memory, and the foreign one");
        wait(fork(|| {
            assert_eq!(scratch.open_descriptors(), 1, "the foreign one stays");
            let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
            assert!(!maps.contains("jobs.sqlite"), "{maps}");
        }));
        drop(other);
        assert_eq!(count(&ours), 1);
    });
}

#[test]
fn a_child_does_not_drop_its_parents_locks_and_meets_them() {
    isolated(module_path!(), "a_child_does_not_drop_its_parents_locks_and_meets_them", || {
        for journal_mode in ["wal", "delete"] {
            let scratch = Scratch::new();
            let database = scratch.database();
            let ours = connect(&database, journal_mode);
            run(&ours, "begin immediate; insert into event values (1)");
            wait(fork(|| {
                let fresh = connect(&database, journal_mode);
                assert!(is_busy(&fresh, "begin immediate"), "{journal_mode}: the parent is writing");
                assert_eq!(count(&fresh), 0);
                disconnect(fresh);
            }));
            let (path, byte) =
                if journal_mode == "wal" { (scratch.shared_memory(), WAL_WRITE) } else { (database.clone(), RESERVED) };
            assert!(Other::open(&path).sees_lock(byte), "{journal_mode}");
            run(&ours, "commit");
            assert_eq!(count(&ours), 1);
        }
    });
}

#[test]
fn a_child_that_outlives_a_killed_parent_does_not_keep_the_file_locked() {
    isolated(module_path!(), "a_child_that_outlives_a_killed_parent_does_not_keep_the_file_locked", || {
        for journal_mode in ["wal", "delete"] {
            let scratch = Scratch::new();
            let (mut from_parent, mut to_us) = std::io::pipe().expect("pipe");
            let parent = fork(|| {
                let ours = connect(&scratch.database(), journal_mode);
                run(&ours, "begin immediate; insert into event values (1)");
                // The child reports, so that its fork handler has run when we go on.
                fork(|| {
                    to_us.write_all(&std::process::id().to_ne_bytes()).expect("write");
                    thread::sleep(Duration::from_secs(60));
                });
                thread::sleep(Duration::from_secs(60));
            });
            let mut child = [0; size_of::<u32>()];
            from_parent.read_exact(&mut child).expect("read");
            let child = libc::pid_t::try_from(u32::from_ne_bytes(child)).expect("a process id");

            let ours = connect_unless_busy(&scratch.database());
            assert!(is_busy(&ours, "begin immediate"), "{journal_mode}: the parent lives and writes");
            let mut status = 0;
            // SAFETY: a process that this test started.
            unsafe { libc::kill(parent, libc::SIGKILL) };
            // SAFETY: `status` is a valid place for the answer.
            unsafe { libc::waitpid(parent, &raw mut status, 0) };
            // SAFETY: signal 0 asks whether the process is there.
            assert_eq!(unsafe { libc::kill(child, 0) }, 0, "the child outlives its parent");
            let free = !is_busy(&ours, "begin immediate");
            // SAFETY: a process that this test started.
            unsafe { libc::kill(child, libc::SIGKILL) };
            assert!(free, "{journal_mode}: the lock went with the parent");
            run(&ours, "insert into event values (2); commit");
            assert_eq!(count(&ours), 1);
            disconnect(ours);
        }
    });
}

fn connect_unless_busy(database: &Path) -> rusqlite::Connection {
    super::open_flags(database, rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE)
}

#[test]
fn forks_amid_busy_threads() {
    const FORKS: i64 = 200;
    isolated(module_path!(), "forks_amid_busy_threads", || {
        let scratch = Scratch::new();
        let database = scratch.database();
        let keeper = connect(&database, "wal");
        let done = AtomicBool::new(false);
        let mut longest = Duration::ZERO;
        let written: i64 = thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut written = 0;
                while !done.load(Ordering::SeqCst) {
                    let ours = connect(&database, "wal");
                    for _ in 0..20 {
                        run(&ours, "insert into event values (1)");
                        written += 1;
                        // A tight loop leaves the lock free for microseconds only, and starves the children.
                        thread::sleep(Duration::from_millis(1));
                    }
                    disconnect(ours);
                }
                written
            });
            scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    let _outer = enter();
                    let reader = connect(&database, "wal");
                    count(&reader);
                    disconnect(reader);
                }
            });
            let ended = SetWhenDropped(&done);
            for number in 0..FORKS {
                let start = Instant::now();
                let child = fork(|| {
                    assert!(usable());
                    if number % 4 != 0 {
                        let fresh = connect(&database, "wal");
                        run(&fresh, "insert into event values (1)");
                        disconnect(fresh);
                    }
                });
                longest = longest.max(start.elapsed());
                wait(child);
            }
            drop(ended);
            writer.join().expect("writer")
        });
        println!("the longest fork took {longest:?}");
        assert_eq!(count(&keeper), written + FORKS / 4 * 3);
        assert_intact(&keeper);
        let open = scratch.open_descriptors();
        assert!(open <= 5, "{open} descriptors");
    });
}
