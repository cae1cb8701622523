//! Which file system a file lies on, and whether locks and shared memory can be trusted there.

use std::path::Path;

/// What is known of a file system type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// Local: locks and shared memory work.
    Local,
    /// Shared over a network: they do not, or not between hosts.
    Network,
    /// Never heard of it.
    Unknown,
}

const NETWORK: &[&str] = &[
    "9p",
    "afs",
    "beegfs",
    "ceph",
    "cifs",
    "coda",
    "davfs",
    "fuse.davfs2",
    "fuse.gcsfuse",
    "fuse.glusterfs",
    "fuse.rclone",
    "fuse.s3fs",
    "fuse.sshfs",
    "gfs2",
    "gpfs",
    "lustre",
    "ncpfs",
    "nfs",
    "nfs4",
    "ocfs2",
    "smb2",
    "smb3",
    "smbfs",
    "vboxsf",
];

const LOCAL: &[&str] = &[
    "apfs", "bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "fuseblk", "hfs", "hfsplus", "jfs", "nilfs2",
    "ntfs3", "overlay", "ramfs", "reiserfs", "rootfs", "tmpfs", "ufs", "vfat", "xfs", "zfs",
];

/// What the name of a file system type says about it.
pub(super) fn trust(kind: &str) -> Trust {
    if NETWORK.contains(&kind) {
        Trust::Network
    } else if LOCAL.contains(&kind) {
        Trust::Local
    } else {
        Trust::Unknown
    }
}

/// The type of the file system that holds `path` (absolute, without symbolic links), as the kernel's list of mounts names
/// it; `None` where there is no such list.
pub(super) fn kind_of(path: &Path) -> Option<String> {
    kind_in(&std::fs::read_to_string("/proc/self/mountinfo").ok()?, path)
}

/// The mount with the longest matching path counts, and of equals the last: it hides the earlier ones.
fn kind_in(mounts: &str, path: &Path) -> Option<String> {
    let mut best: Option<(usize, &str)> = None;
    for line in mounts.lines() {
        // 36 35 98:0 /root /mount/point options optional… - type source options
        let Some((before, after)) = line.split_once(" - ") else { continue };
        let (Some(point), Some(kind)) = (before.split(' ').nth(4), after.split(' ').next()) else { continue };
        let point = unescaped(point);
        let depth = Path::new(&point).components().count();
        if path.starts_with(&point) && best.is_none_or(|(deepest, _)| depth >= deepest) {
            best = Some((depth, kind));
        }
    }
    best.map(|(_, kind)| kind.to_owned())
}

/// The kernel writes space, tab, newline and backslash in a mount point as `\040` and so on.
fn unescaped(point: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(point.to_owned(), |text, (code, plain)| text.replace(code, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:35 / /home rw shared:2 - nfs4 server:/home rw
41 22 0:36 / /my\\040cloud rw - fuse.rclone remote: rw
42 22 0:37 / /home/local rw - xfs /dev/sdb1 rw
43 22 0:38 / /mnt rw - ext4 /dev/sdc1 rw
44 22 0:39 / /mnt rw - 9p share rw
";

    #[test]
    fn the_deepest_and_latest_mount_counts() {
        let kind = |path: &str| kind_in(MOUNTS, Path::new(path)).unwrap();
        assert_eq!(kind("/var/jobs.sqlite"), "ext4");
        assert_eq!(kind("/home/ada/jobs.sqlite"), "nfs4");
        assert_eq!(kind("/home/local/jobs.sqlite"), "xfs");
        assert_eq!(kind("/homestead/jobs.sqlite"), "ext4");
        assert_eq!(kind("/my cloud/jobs.sqlite"), "fuse.rclone");
        assert_eq!(kind("/mnt/jobs.sqlite"), "9p");
    }

    #[test]
    fn types_are_trusted_by_name() {
        assert_eq!(trust("nfs4"), Trust::Network);
        assert_eq!(trust("ext4"), Trust::Local);
        assert_eq!(trust("fuse.something"), Trust::Unknown);
    }
}
