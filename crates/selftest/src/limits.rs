//! Every limit of this crate and its reason. None of them is reached by a kernel console.

/// Length of every request and reply, in bytes [LST-2].
pub(crate) const MESSAGE_LEN: u32 = lustrine_wire::srpc::MESSAGE_LEN as u32;

/// Length of one request buffer, in bytes: many requests share one descriptor, so that an attach
/// is paid once per several hundred requests.
pub(crate) const INBOX_LEN: u32 = 64 << 10;

/// Requests one request buffer takes before it goes.
pub(crate) const INBOX_REQUESTS: u32 = INBOX_LEN / MESSAGE_LEN;

/// Request buffers per portal that take requests: while one is emptied the others do.
pub(crate) const INBOXES: u32 = 4;

/// Most request buffers of a portal, those that are full included. A peer that stalls in the middle
/// of a request holds a full buffer until its connection goes; 4 MiB may be held that way before
/// the portal waits for it.
pub(crate) const INBOXES_MAX: u32 = 64;

/// Most RPCs answered at once by one CPU partition; about 1.3 MB. What a peer sends beyond them
/// waits, first here, then inside LNet.
pub(crate) const ANSWERS_MAX: u32 = 4096;

/// Most requests that wait for an answer slot or for bulk memory, or could still arrive in posted
/// request buffers; a request buffer is posted again only while it fits below this sum.
pub(crate) const WAITING_MAX: u32 = 8192;

/// One peer has at most this part of the answer slots, of the slots of framework requests and of
/// the bulk memory: a peer that reads and answers nothing leaves the rest to others. And half of
/// everything is kept for peers that have little, so that several such peers do not take all.
pub(crate) const PEER_PART: u32 = 4;

/// Answers that count as little: 256 peers that read and answer nothing can have so many each
/// before one more goes short. Of bulk memory it is one transfer.
pub(crate) const ANSWERS_KEPT: u32 = 8;

/// Most requests that wait. When one more comes, the peer with most of them loses its newest.
/// It is so far below [`WAITING_MAX`] that request buffers stay posted.
pub(crate) const WAITING_CROWDED: u32 = WAITING_MAX - 2 * INBOXES * INBOX_REQUESTS;

/// Most framework requests in flight on one CPU partition. Kernels have 256 request descriptors
/// per service [LST-28].
pub(crate) const FRAMEWORK_MAX: u32 = 256 * 7;

/// Framework requests that count as little, as [`ANSWERS_KEPT`] does: a console of ours has one or
/// two in flight at a node.
pub(crate) const FRAMEWORK_KEPT: u32 = 4;

/// Most CLIENT_STATS requests whose answers are collected at once; a console of ours has one in
/// flight.
pub(crate) const STATS_GATHERS_MAX: u32 = 64;

/// Most batches of a session: `lst` users have a handful.
pub(crate) const BATCHES_MAX: usize = 256;

/// How often a node is asked to remove a session at most: it counts how often the session was made
/// [LST-13], also when its reply to that was lost.
pub(crate) const REMOVALS_MAX: u32 = 16;

/// Most NIDs of a console, besides the one that made the session: kernels have 16 interfaces.
pub(crate) const CONSOLE_NIDS_MAX: usize = 64;

/// Most test instances of a batch.
pub(crate) const TESTS_MAX: usize = 256;

/// Most client units of a node, those of ended sessions that are not finished yet included: 128
/// destinations with the highest concurrency, about 20 MB.
pub(crate) const UNITS_MAX: u32 = 128 * 1024;

/// Most client tests of a session, each of which keeps latencies: 10 to 30 kB with usual ones, and
/// 220 kB at most on each partition.
pub(crate) const CLIENT_TESTS_MAX: usize = 1024;

/// Most destinations of one TEST: entries of 12 bytes in 256 fragments of 4 KiB [LST-6].
pub(crate) const DESTINATIONS_MAX: u32 = 256 * (PAGE / 12);

/// The page size this node claims: fragments are cut by it, v0 lengths counted in it.
pub(crate) const PAGE: u32 = 4096;

/// The largest page of any peer; places where pages of every size begin or end [LST-16].
pub(crate) const PAGE_MAX: u32 = 64 << 10;
