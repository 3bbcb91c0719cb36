/* The C client: the data socket of proto/sealcar/v1/data_socket.proto, spoken by hand. Build it with
 *
 *   cc -std=c11 -O2 -fPIC -fvisibility=hidden -shared -I client/sealcar/native \
 *      -o libsealcar.so client/c/sealcar.c
 *
 * Whatever the daemon sends is measured before it is used: lengths against the packet, slots against
 * the ring, rings against their descriptor. There are no locks: connections are claimed by atomic
 * exchange, so a child of fork finds nothing locked by a thread that it doesn't have. */
#define _GNU_SOURCE
#include "sealcar.h"
#include "abi.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

_Static_assert(_Generic(&sealcar_read_named_buffer, read_named: 1, default: 0), "as ORT has it");
_Static_assert(_Generic(&sealcar_write_named_buffer, write_named: 1, default: 0), "as ORT has it");

#define RELEASE "sealcar-c 0.1.0"
#define SYSTEM_DIRECTORY "/run/sealcar/default"

enum {
    PROTOCOL = 1,
    PACKET = 65536,
    BODY = 4, /* where a packet's message begins: after its tag, and its length in three bytes */
    CONNECTIONS = 8,
    RETRY_MS = 50,
    DISK_PATIENCE_MS = 600000, /* publishing and syncing wait for the disk */
    MAX_LINKS = 40,
    MAX_SLOTS = 64, /* a ring has 8, and pieces that come out of order leave fewer gaps */
    MAX_PAYLOADS = 100000,
};

/* fields of ClientPacket, and of DaemonPacket */
enum {
    ATTEST = 1, OPEN, READ, RING_MAPPED, FREE, CANCEL, BEGIN, WRITE, PIECE, COMMIT, ABORT, STATE,
    SEGMENT, SEGMENT_RECEIVED
};
enum {
    ATTESTED = 1, OPENED, RING, WRITE_RING, READING, A_PIECE, DONE, BEGUN, WRITING, FREED, WRITTEN,
    COMMITTED, ABORTED, ERROR, A_STATE, A_SEGMENT, FILLING
};
#define OR(kind) (1u << (kind))
#define WITH_DESCRIPTOR (OR(RING) | OR(WRITE_RING) | OR(A_SEGMENT))

enum { UNUSED, IDLE, BUSY }; /* of a place for a connection */

struct bytes {
    const uint8_t *at, *end;
};

struct ring {
    uint8_t *at; /* NULL: there is none, and both numbers are 0 */
    uint32_t slots, slot_size;
};

struct connection {
    int fd, place, timeout, segments;
    int usable;          /* for another request: 0 in the midst of a transfer too */
    sealcar_error *e;    /* of the request under way */
    unsigned kind;       /* of the packet that came last; 0: nothing that this release knows */
    struct bytes body;   /* its message, in `in` */
    int handed;          /* its descriptor, closed before the next one comes; -1: none */
    struct ring ring[2]; /* that we read, that we write */
    size_t size;         /* of the packet in `out` */
    int unsendable;      /* why it can't be sent; 0: it can */
    uint8_t in[PACKET], out[PACKET];
};

struct sealcar_client {
    char directory[sizeof((struct sockaddr_un *)0)->sun_path];
    int64_t peer; /* -1: the owner of the directory, looked up at every connect */
    int timeout, minor;
    void *const *api;
    _Atomic(pid_t) process; /* that the connections belong to; negative: being taken over */
    struct {
        atomic_int state;
        struct connection *connection;
    } place[CONNECTIONS];
};

/* a text of the daemon's, kept as long as what it belongs to */
struct text {
    struct text *next;
    char at[];
};

struct sealcar_scope {
    sealcar_client *client;
    struct sealcar_variant variant;
    struct sealcar_payload *payloads;
    struct text *texts;
    const char *model; /* the only one's name; its blobs lie beside it */
    size_t folder;     /* bytes of that name before its last part */
    sealcar_scope *next; /* of those that RegisterCustomOps opened */
};

struct sealcar_transaction {
    sealcar_client *client;
    struct connection *connection; /* kept open: the transaction ends with the last one */
    pid_t process;
    struct sealcar_name name;
    struct text *texts;
    uint8_t id[64];
    size_t id_size;
    atomic_uint written;
};

/* ---- errors ---------------------------------------------------------------------------------- */
__attribute__((format(printf, 3, 4))) static int fail(sealcar_error *e, int reason,
                                                      const char *format, ...)
{
    va_list list;
    va_start(list, format);
    *e = (sealcar_error){.reason = reason};
    vsnprintf(e->text, sizeof e->text, format, list);
    va_end(list);
    /* names and messages come from elsewhere: nothing in them steers a terminal or breaks a text */
    for (char *c = e->text; *c; c++)
        if (*c < 0x20 || *c > 0x7e)
            *c = '?';
    return -1;
}

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

/* Say what was being done when it failed. */
static int placed(sealcar_error *e, const char *phase, const struct sealcar_name *name,
                  const char *payload)
{
    sealcar_error inner = *e;
    fail(e, inner.reason, "%s %.200s%sof %.64s/%.64s/%.64s: %s", phase, or_empty(payload),
         *or_empty(payload) ? " " : "", or_empty(name->package), or_empty(name->component),
         or_empty(name->variant), inner.text);
    e->retry_after_ms = inner.retry_after_ms;
    return -1;
}

/* The connection is of no use any more. */
static int broken(struct connection *c, int reason, const char *why)
{
    c->usable = 0;
    shutdown(c->fd, SHUT_RDWR); /* the daemon frees what it holds for us now */
    return fail(c->e, reason, "%s", why);
}

static int out_of_turn(struct connection *c)
{
    return broken(c, SEALCAR_UNAVAILABLE, "the daemon answered out of turn");
}

/* ---- protobuf: reading ----------------------------------------------------------------------- */
struct field {
    uint32_t number, wire;
    uint64_t value;
    struct bytes bytes;
};

static size_t size_of(struct bytes b)
{
    return (size_t)(b.end - b.at);
}

static int varint(struct bytes *in, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; shift < 64 && in->at < in->end; shift += 7) {
        uint8_t byte = *in->at++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return 1;
    }
    return 0;
}

/* 1: the next field; 0: the end; -1: no protobuf */
static int next_field(struct bytes *in, struct field *f)
{
    uint64_t tag, size;
    *f = (struct field){0};
    if (in->at == in->end)
        return 0;
    if (!varint(in, &tag) || tag >> 3 == 0 || tag >> 3 > 536870911)
        return -1;
    f->number = (uint32_t)(tag >> 3);
    f->wire = tag & 7;
    switch (f->wire) {
    case 0:
        return varint(in, &f->value) ? 1 : -1;
    case 1:
        size = 8;
        break;
    case 2:
        if (!varint(in, &size))
            return -1;
        break;
    case 5:
        size = 4;
        break;
    default:
        return -1;
    }
    if (size > size_of(*in))
        return -1;
    f->bytes = (struct bytes){in->at, in->at + size};
    in->at += size;
    return 1;
}

static int well_formed(struct bytes in)
{
    struct field f;
    int more;
    while ((more = next_field(&in, &f)) > 0)
        ;
    return more == 0;
}

/* The value of a number, or the bytes of a field; the last one counts. 0: it isn't there. */
static int find_field(struct bytes in, uint32_t number, uint32_t wire, struct field *found)
{
    struct field f;
    int there = 0;
    *found = (struct field){0};
    while (next_field(&in, &f) > 0)
        if (f.number == number && f.wire == wire) {
            *found = f;
            there = 1;
        }
    return there;
}

static uint64_t number_of(struct bytes in, uint32_t number)
{
    struct field f;
    find_field(in, number, 0, &f);
    return f.value;
}

static struct bytes bytes_of(struct bytes in, uint32_t number)
{
    struct field f;
    find_field(in, number, 2, &f);
    return f.bytes;
}

/* ---- protobuf: writing ----------------------------------------------------------------------- */
static void put(struct connection *c, const void *data, size_t size)
{
    if (size > PACKET - c->size) {
        c->unsendable = SEALCAR_INVALID_REQUEST;
        return;
    }
    if (size)
        memcpy(c->out + c->size, data, size);
    c->size += size;
}

static void put_varint(struct connection *c, uint64_t value)
{
    uint8_t digits[10];
    size_t size = 0;
    for (; value > 0x7f; value >>= 7)
        digits[size++] = (uint8_t)value | 0x80;
    digits[size++] = (uint8_t)value;
    put(c, digits, size);
}

static void put_number(struct connection *c, uint32_t number, uint64_t value)
{
    put_varint(c, (uint64_t)number << 3);
    put_varint(c, value);
}

static void put_bytes(struct connection *c, uint32_t number, const void *data, size_t size)
{
    put_varint(c, (uint64_t)number << 3 | 2);
    put_varint(c, size);
    put(c, data, size);
}

/* Protobuf's texts are UTF-8: the daemon would hang up on anything else. */
static int is_utf8(const uint8_t *s)
{
    /* Unicode, table 3-7: by the first byte, what the second one may be, and how many follow it */
    static const struct {
        uint8_t first, last, low, high, more;
    } form[] = {
        {0xc2, 0xdf, 0x80, 0xbf, 0}, {0xe0, 0xe0, 0xa0, 0xbf, 1}, {0xe1, 0xec, 0x80, 0xbf, 1},
        {0xed, 0xed, 0x80, 0x9f, 1}, {0xee, 0xef, 0x80, 0xbf, 1}, {0xf0, 0xf0, 0x90, 0xbf, 2},
        {0xf1, 0xf3, 0x80, 0xbf, 2}, {0xf4, 0xf4, 0x80, 0x8f, 2},
    };
    enum { FORMS = sizeof form / sizeof *form };
    for (; *s; s++) {
        if (*s < 0x80)
            continue;
        size_t i = 0;
        while (i < FORMS && (*s < form[i].first || *s > form[i].last))
            i++;
        if (i == FORMS || *++s < form[i].low || *s > form[i].high)
            return 0;
        for (int more = form[i].more; more > 0; more--)
            if ((*++s & 0xc0) != 0x80)
                return 0;
    }
    return 1;
}

static void put_text(struct connection *c, uint32_t number, const char *text)
{
    if (!text || !*text)
        return;
    put_bytes(c, number, text, strlen(text));
    if (!is_utf8((const uint8_t *)text))
        c->unsendable = SEALCAR_INVALID_NAME;
}

/* A message's length is filled in when it is known, in three bytes: a varint may have some to spare. */
static size_t open_message(struct connection *c, uint32_t number)
{
    put_varint(c, (uint64_t)number << 3 | 2);
    put(c, "\0\0", 3);
    return c->size;
}

static void close_message(struct connection *c, size_t start)
{
    size_t size = c->size - start;
    c->out[start - 3] = (uint8_t)size | 0x80;
    c->out[start - 2] = (uint8_t)(size >> 7) | 0x80;
    c->out[start - 1] = (uint8_t)(size >> 14);
}

/* A new packet, which send_packet closes. */
static void begin(struct connection *c, unsigned kind)
{
    c->size = 0;
    c->unsendable = 0;
    open_message(c, kind);
}

static void put_scope(struct connection *c, const struct sealcar_name *name)
{
    size_t scope = open_message(c, 1), package = open_message(c, 1);
    put_text(c, 1, name->package);
    put_text(c, 2, name->version);
    close_message(c, package);
    put_text(c, 2, name->component);
    put_text(c, 3, name->variant);
    put_number(c, 4, name->generation);
    close_message(c, scope);
}

/* ---- who the daemon is ----------------------------------------------------------------------- */
struct owned {
    mode_t mode; /* 0: not looked at */
    uid_t owner;
};

/* What was seen on the way to the socket directory. */
struct way {
    struct owned here;
    int64_t other; /* the one owner on it who is neither root nor we; -1: none */
    int unsafe;    /* somebody else could have put it there */
};

static int is_open(mode_t mode)
{
    return !S_ISLNK(mode) && mode & (S_IWGRP | S_IWOTH);
}

/* Look at a directory or link, which lies in the one that was looked at before. */
static int look(struct way *w, const char *path)
{
    struct stat found;
    if (lstat(*path ? path : "/", &found))
        return -1;
    if (found.st_uid && found.st_uid != geteuid()) {
        /* a sticky directory such as /tmp keeps what is in it from being replaced, but not from
         * being made by whoever comes first */
        if (is_open(w->here.mode) || (w->other >= 0 && w->other != found.st_uid))
            w->unsafe = 1;
        w->other = found.st_uid;
    }
    if (is_open(found.st_mode) && !(found.st_mode & S_ISVTX))
        w->unsafe = 1;
    w->here = (struct owned){found.st_mode, found.st_uid};
    return 0;
}

/* Walk from / to the directory, links too, as the kernel would. */
static int walk(const char *directory, struct way *w)
{
    char path[PATH_MAX] = "", rest[PATH_MAX], target[PATH_MAX];
    int links = 0;
    *w = (struct way){.other = -1};
    if (snprintf(rest, sizeof rest, "%s", directory) >= PATH_MAX || look(w, path))
        return -1;
    for (char *part = rest; *(part += strspn(part, "/"));) {
        size_t length = strcspn(part, "/"), before = strlen(path);
        char *after = part + length, *slash = strrchr(path, '/');
        struct owned inside = w->here;
        int up = length == 2 && memcmp(part, "..", 2) == 0;
        if (up) {
            if (slash)
                *slash = 0;
            w->here.mode = 0;
        } else if (length != 1 || *part != '.') {
            if (before + length + 2 > sizeof path)
                return -1;
            snprintf(path + before, sizeof path - before, "/%.*s", (int)length, part);
        }
        if ((up || path[before]) && look(w, path))
            return -1;
        part = after;
        if (!S_ISLNK(w->here.mode))
            continue;
        ssize_t size = readlink(path, target, sizeof target - 1);
        if (size <= 0 || ++links > MAX_LINKS || (size_t)size + strlen(after) >= sizeof target)
            return -1;
        strcpy(target + size, after);
        strcpy(rest, target);
        part = rest;
        path[before] = 0;
        w->here = inside;
        if (*target == '/') {
            *path = 0;
            w->here.mode = 0;
            if (look(w, path))
                return -1;
        }
    }
    return 0;
}

/* Whose the directory is, as long as nobody else could have put it there. */
static int owner_of(const char *directory, int64_t *owner, sealcar_error *e)
{
    struct way w;
    if (walk(directory, &w))
        return fail(e, SEALCAR_UNAVAILABLE, "no daemon listens at %s", directory);
    if (w.unsafe || is_open(w.here.mode) || (w.other >= 0 && w.other != w.here.owner))
        return fail(e, SEALCAR_INVALID_REQUEST,
                    "others than its owner can write to %s or replace it, so its owner doesn't "
                    "tell who the daemon is: give peer_uid or $SEALCAR_PEER_UID, or chmod go-w",
                    directory);
    *owner = w.here.owner;
    return 0;
}

/* ---- packets --------------------------------------------------------------------------------- */
static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){0, ms * 1000000L}, NULL);
}

/* 1: ready; 0: the time is over */
static int wait_for(int fd, short events, int64_t deadline)
{
    for (;;) {
        struct pollfd p = {fd, events, 0};
        int64_t left = deadline - now_ms();
        int ready = poll(&p, 1, left < 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left);
        if (ready > 0)
            return 1;
        if (ready == 0 || (errno != EINTR && errno != EAGAIN))
            return 0;
    }
}

static int descriptor_of(struct msghdr *m)
{
    int fd = -1;
    struct cmsghdr *h = CMSG_FIRSTHDR(m);
    if (h && h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS &&
        h->cmsg_len >= CMSG_LEN(sizeof fd))
        memcpy(&fd, CMSG_DATA(h), sizeof fd);
    return fd;
}

static void close_handed(struct connection *c)
{
    if (c->handed >= 0)
        close(c->handed);
    c->handed = -1;
}

static void unpack(struct connection *c, size_t size)
{
    struct bytes in = {c->in, c->in + size};
    struct field f;
    c->kind = 0;
    c->body = (struct bytes){NULL, NULL};
    if (!well_formed(in))
        return;
    while (next_field(&in, &f) > 0)
        if (f.wire == 2 && f.number >= ATTESTED && f.number <= FILLING) {
            c->kind = f.number;
            c->body = f.bytes;
        }
    if (!well_formed(c->body))
        c->kind = 0;
}

static int receive(struct connection *c, int patience)
{
    /* room for one descriptor and not a byte more: the padding would take a second one */
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    int64_t deadline = now_ms() + patience;
    close_handed(c);
    for (int resets = 0;;) {
        struct iovec io = {c->in, sizeof c->in};
        struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = &control,
                           .msg_controllen = CMSG_LEN(sizeof(int))};
        ssize_t size = recvmsg(c->fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
        if (size < 0 && errno == EAGAIN) {
            if (!wait_for(c->fd, POLLIN, deadline))
                return broken(c, SEALCAR_TIMED_OUT, "the daemon was silent for too long");
            continue;
        }
        /* a reset comes once, and before the packets that the daemon sent before it closed */
        if (size < 0 && (errno == EINTR || (errno == ECONNRESET && !resets++)))
            continue;
        if (size <= 0)
            return broken(c, SEALCAR_UNAVAILABLE, "the daemon closed the connection");
        c->handed = descriptor_of(&m);
        if (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
            return broken(c, SEALCAR_UNAVAILABLE,
                          "a packet over the limits of the data socket came in");
        unpack(c, (size_t)size);
        return 0;
    }
}

static int refused(struct connection *c)
{
    struct bytes message = bytes_of(c->body, 2);
    int reason = (int)(number_of(c->body, 1) & 0xff);
    fail(c->e, reason ? reason : SEALCAR_UNAVAILABLE, "%.*s", (int)size_of(message),
         or_empty((const char *)message.at));
    c->e->retry_after_ms = number_of(c->body, 8);
    return -1;
}

/* The daemon is gone, but may have said why before it closed. */
static int farewell(struct connection *c)
{
    while (receive(c, RETRY_MS) == 0)
        if (c->kind == ERROR) {
            c->usable = 0;
            return refused(c);
        }
    return broken(c, SEALCAR_UNAVAILABLE, "the daemon is gone");
}

static int send_packet(struct connection *c)
{
    int64_t deadline = now_ms() + c->timeout;
    close_message(c, BODY);
    if (c->unsendable)
        return fail(c->e, c->unsendable, "a text in this request isn't UTF-8, or they are too long");
    while (send(c->fd, c->out, c->size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN)
            return farewell(c);
        if (!wait_for(c->fd, POLLOUT, deadline))
            return broken(c, SEALCAR_TIMED_OUT, "the daemon didn't take a packet in time");
    }
    return 0;
}

/* ---- rings ----------------------------------------------------------------------------------- */
static void unmap_ring(struct ring *r)
{
    if (r->at)
        munmap(r->at, (size_t)r->slots * r->slot_size);
    *r = (struct ring){0};
}

/* Memory that another process could still shrink is never mapped: touching it could raise SIGBUS. */
static void *map_sealed(int fd, uint64_t size, int seals, int access)
{
    struct stat found;
    int has = fcntl(fd, F_GET_SEALS);
    if (has < 0 || (has & seals) != seals || fstat(fd, &found) || !size || size > PTRDIFF_MAX ||
        (uint64_t)found.st_size != size)
        return NULL;
    void *at = mmap(NULL, size, access, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return NULL;
    madvise(at, size, MADV_DONTDUMP);
    return at;
}

static int attach(struct connection *c)
{
    int writable = c->kind == WRITE_RING;
    uint64_t slots = number_of(c->body, 1), slot_size = number_of(c->body, 2);
    struct ring *r = &c->ring[writable];
    unmap_ring(r);
    if (slots <= MAX_SLOTS && slot_size <= UINT32_MAX)
        r->at = map_sealed(c->handed, slots * slot_size, F_SEAL_SHRINK | F_SEAL_GROW,
                           writable ? PROT_READ | PROT_WRITE : PROT_READ);
    if (!r->at)
        return broken(c, SEALCAR_UNAVAILABLE,
                      "the daemon's ring isn't what was announced, or can still change its size");
    r->slots = (uint32_t)slots;
    r->slot_size = (uint32_t)slot_size;
    /* a child of fork has no use for it, and the daemon counts it as long as it is mapped */
    madvise(r->at, slots * slot_size, MADV_DONTFORK);
    begin(c, RING_MAPPED);
    return send_packet(c);
}

/* The next packet of a wanted kind; a ring that is wanted before it is mapped and acknowledged. In
 * the midst of a transfer none is: slots of the old one are still in use. */
static int answer(struct connection *c, unsigned wanted, int patience)
{
    for (;;) {
        if (receive(c, patience))
            return -1;
        unsigned came = OR(c->kind);
        if (!(came & (wanted | OR(ERROR))) || (c->handed >= 0) != !!(came & WITH_DESCRIPTOR))
            return out_of_turn(c);
        if (c->kind == ERROR)
            return refused(c);
        if (c->kind != RING && c->kind != WRITE_RING)
            return 0;
        if (attach(c))
            return -1;
    }
}

static int request(struct connection *c, unsigned wanted)
{
    return send_packet(c) || answer(c, wanted, c->timeout) ? -1 : 0;
}

/* ---- connections ----------------------------------------------------------------------------- */
static void hang_up(struct connection *c)
{
    /* in this order: the daemon counts the rings for as long as they are mapped */
    unmap_ring(&c->ring[0]);
    unmap_ring(&c->ring[1]);
    close_handed(c);
    if (c->fd >= 0)
        close(c->fd);
    explicit_bzero(c->in, sizeof c->in); /* small payloads came through it */
    free(c);
}

/* 0: connected; 1: not yet; -1: never */
static int dial(const sealcar_client *client, struct connection *c)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    struct ucred peer;
    socklen_t size = sizeof peer;
    int64_t expected = client->peer;
    if (expected < 0 && owner_of(client->directory, &expected, c->e))
        return c->e->reason == SEALCAR_UNAVAILABLE ? 1 : -1;
    snprintf(to.sun_path, sizeof to.sun_path, "%.97s/data.sock", client->directory);
    c->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (c->fd < 0)
        return fail(c->e, SEALCAR_EXHAUSTED, "no socket: %s", strerror(errno));
    if (connect(c->fd, (struct sockaddr *)&to, sizeof to)) {
        int denied = errno == EACCES || errno == EPERM;
        fail(c->e, denied ? SEALCAR_DENIED : SEALCAR_UNAVAILABLE, "no daemon at %s: %s",
             client->directory, strerror(errno));
        return denied ? -1 : 1;
    }
    if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) || (int64_t)peer.uid != expected)
        return fail(c->e, SEALCAR_UNAVAILABLE,
                    "uid %u listens at %s, but the daemon must have uid %u", (unsigned)peer.uid,
                    client->directory, (unsigned)expected);
    return 0;
}

/* 0: it is the daemon, and speaks our protocol; 1: it is just going, or just coming; -1: never */
static int attest(struct connection *c)
{
    c->usable = 1;
    begin(c, ATTEST);
    put_number(c, 1, PROTOCOL);
    put_text(c, 2, RELEASE);
    if (request(c, OR(ATTESTED)))
        return c->e->reason == SEALCAR_UNAVAILABLE ? 1 : -1;
    c->segments = number_of(c->body, 5) != 0;
    if (number_of(c->body, 1) == PROTOCOL)
        return 0;
    return fail(c->e, SEALCAR_INCOMPATIBLE, "the daemon speaks another protocol than this client");
}

static struct connection *call(const sealcar_client *client, int64_t deadline, sealcar_error *e)
{
    for (;;) {
        struct connection *c = calloc(1, sizeof *c);
        if (!c) {
            fail(e, SEALCAR_EXHAUSTED, "no memory for a connection");
            return NULL;
        }
        c->fd = c->handed = -1;
        c->e = e;
        c->timeout = client->timeout;
        int later = dial(client, c);
        if (!later)
            later = attest(c);
        if (!later)
            return c;
        hang_up(c);
        if (later < 0 || now_ms() + RETRY_MS >= deadline)
            return NULL;
        pause_ms(RETRY_MS);
    }
}

/* A fork in the midst of it leaves the child less to free, never the same twice. */
static void drop(sealcar_client *client, int place)
{
    struct connection *c = client->place[place].connection;
    client->place[place].connection = NULL;
    if (c)
        hang_up(c);
}

/* In a child of fork: drop the parent's connections, which only the parent may speak on. */
static void take_over(sealcar_client *client)
{
    for (pid_t me = getpid(), held; (held = atomic_load(&client->process)) != me; sched_yield()) {
        if (held == -me || !atomic_compare_exchange_strong(&client->process, &held, -me))
            continue;
        for (int i = 0; i < CONNECTIONS; i++) {
            struct connection *c = client->place[i].connection;
            if (c)
                c->ring[0].at = c->ring[1].at = NULL; /* they didn't come along */
            drop(client, i);
            atomic_store(&client->place[i].state, UNUSED);
        }
        atomic_store(&client->process, me);
    }
}

static int claim(sealcar_client *client, int state)
{
    for (int i = 0; i < CONNECTIONS; i++) {
        int expected = state;
        if (atomic_compare_exchange_strong(&client->place[i].state, &expected, BUSY))
            return i;
    }
    return -1;
}

/* A connection for one request, to be given back; NULL: there is none. */
static struct connection *lease(sealcar_client *client, sealcar_error *e)
{
    int64_t deadline = now_ms() + client->timeout;
    int place;
    take_over(client);
    while ((place = claim(client, IDLE)) < 0 && (place = claim(client, UNUSED)) < 0) {
        if (now_ms() >= deadline) {
            fail(e, SEALCAR_TIMED_OUT, "all %d connections were busy", CONNECTIONS);
            return NULL;
        }
        pause_ms(1);
    }
    struct connection **c = &client->place[place].connection;
    if (*c && wait_for((*c)->fd, POLLIN, 0)) /* what comes unasked is the daemon's farewell */
        drop(client, place);
    if (!*c && !(*c = call(client, deadline, e))) {
        atomic_store(&client->place[place].state, UNUSED);
        return NULL;
    }
    (*c)->place = place;
    (*c)->e = e;
    return *c;
}

static void give_back(sealcar_client *client, struct connection *c)
{
    if (!c)
        return;
    int place = c->place, usable = c->usable;
    if (!usable)
        drop(client, place);
    atomic_store(&client->place[place].state, usable ? IDLE : UNUSED);
}

static int find_directory(sealcar_client *client, const char *given, sealcar_error *e)
{
    char working[PATH_MAX];
    const char *inside = NULL, *runtime = secure_getenv("XDG_RUNTIME_DIR");
    struct stat found;
    if (!given || !*given)
        given = secure_getenv("SEALCAR_SOCKET");
    if (given && *given) {
        inside = *given == '/' ? "" : getcwd(working, sizeof working);
    } else if (stat(SYSTEM_DIRECTORY, &found) == 0 && S_ISDIR(found.st_mode)) {
        inside = "";
        given = SYSTEM_DIRECTORY;
    } else if (runtime && *runtime) {
        inside = runtime;
        given = "sealcar/default";
    }
    if (!inside)
        return fail(e, SEALCAR_INVALID_REQUEST,
                    "where is the daemon? Give the listener's directory, or set $SEALCAR_SOCKET");
    int length = snprintf(client->directory, sizeof client->directory, "%s%s%s", inside,
                          *inside ? "/" : "", given);
    if (length < 0 || (size_t)length + sizeof "/data.sock" > sizeof client->directory)
        return fail(e, SEALCAR_INVALID_REQUEST,
                    "the path of the data socket is longer than a Unix socket's can be");
    return 0;
}

/* The number that a variable of the environment gives; left as it is if that isn't set. */
static int take_variable(const char *variable, int64_t *number, sealcar_error *e)
{
    const char *text = secure_getenv(variable);
    if (!text || !*text)
        return 0;
    size_t digits = strspn(text, "0123456789");
    if (text[digits] || digits > 18)
        return fail(e, SEALCAR_INVALID_REQUEST, "$%s must be a number in decimal digits", variable);
    *number = strtoll(text, NULL, 10);
    return 0;
}

int sealcar_connect(const char *directory, int64_t peer_uid, int timeout_ms, const OrtApiBase *ort,
                    sealcar_client **made, sealcar_error *error)
{
    sealcar_error unasked, *e = error ? error : &unasked;
    const struct api_base *base = (const struct api_base *)ort;
    sealcar_client *client = calloc(1, sizeof *client);
    *made = NULL;
    if (!client)
        return fail(e, SEALCAR_EXHAUSTED, "no memory for a client");
    client->peer = peer_uid;
    client->timeout = timeout_ms > 0 ? timeout_ms : 30000;
    client->process = getpid();
    int failed = find_directory(client, directory, e) ||
                 (peer_uid < 0 && take_variable("SEALCAR_PEER_UID", &client->peer, e));
    if (!failed && base) {
        client->api = base->get_api(API_VERSION);
        if (!client->api || sscanf(base->get_version(), "1.%d", &client->minor) != 1)
            failed = fail(e, SEALCAR_INCOMPATIBLE, "ONNX Runtime 1.28 or later is needed");
    }
    struct connection *c = failed ? NULL : lease(client, e);
    if (!c) {
        free(client);
        return -1;
    }
    give_back(client, c);
    *made = client;
    return 0;
}

void sealcar_disconnect(sealcar_client *client)
{
    if (!client)
        return;
    take_over(client);
    for (int i = 0; i < CONNECTIONS; i++)
        drop(client, i);
    free(client);
}

/* ---- opening --------------------------------------------------------------------------------- */
/* A copy of a text of the daemon's; NULL for one that C can't have, or without memory. */
static const char *keep(struct text **kept, struct bytes in, uint32_t number)
{
    struct bytes b = bytes_of(in, number);
    size_t size = size_of(b);
    struct text *t = size && memchr(b.at, 0, size) ? NULL : malloc(sizeof *t + size + 1);
    if (!t)
        return NULL;
    if (size)
        memcpy(t->at, b.at, size);
    t->at[size] = 0;
    t->next = *kept;
    *kept = t;
    return t->at;
}

static void forget(struct text *kept)
{
    for (struct text *next; kept; kept = next) {
        next = kept->next;
        free(kept);
    }
}

static int take_name(struct text **kept, struct bytes scope, struct sealcar_name *name)
{
    struct bytes package = bytes_of(scope, 1);
    name->generation = number_of(scope, 4);
    return (name->package = keep(kept, package, 1)) && (name->version = keep(kept, package, 2)) &&
           (name->component = keep(kept, scope, 2)) && (name->variant = keep(kept, scope, 3));
}

static int take_payload(sealcar_scope *s, struct bytes info)
{
    struct bytes identity = bytes_of(info, 5);
    size_t count = s->variant.count;
    if (count == MAX_PAYLOADS)
        return 0;
    if ((count & (count - 1)) == 0) { /* full at every power of two */
        void *grown = realloc(s->payloads, (count ? 2 * count : 1) * sizeof *s->payloads);
        if (!grown)
            return 0;
        s->variant.payloads = s->payloads = grown;
    }
    struct sealcar_payload *p = &s->payloads[count];
    *p = (struct sealcar_payload){.name = keep(&s->texts, info, 1), .size = number_of(info, 3),
                                  .kind = (int)(number_of(info, 2) & 0xff),
                                  .sealed = number_of(info, 4) != 0};
    if (size_of(identity) == sizeof p->identity)
        memcpy(p->identity, identity.at, sizeof p->identity);
    s->variant.count += p->name != NULL;
    return p->name != NULL;
}

static int take_page(sealcar_scope *s, struct bytes page)
{
    struct bytes info = bytes_of(page, 2);
    struct sealcar_variant *v = &s->variant;
    struct field f;
    if (!v->ep && !(take_name(&s->texts, bytes_of(page, 1), &v->name) &&
                    (v->ep = keep(&s->texts, info, 3)) && (v->device = keep(&s->texts, info, 4)) &&
                    (v->compatibility = keep(&s->texts, info, 5)) &&
                    (v->executor_info = keep(&s->texts, info, 6))))
        return 0;
    while (next_field(&info, &f) > 0)
        if (f.number == 7 && f.wire == 2 && !take_payload(s, f.bytes))
            return 0;
    return 1;
}

static int open_on(struct connection *c, sealcar_scope *s, const struct sealcar_name *name)
{
    struct bytes token = {NULL, NULL};
    do {
        size_t before = s->variant.count;
        begin(c, OPEN);
        put_scope(c, name);
        put_bytes(c, 2, token.at, size_of(token));
        if (request(c, OR(OPENED)))
            return -1;
        token = bytes_of(c->body, 3);
        if (!take_page(s, c->body) || (size_of(token) && s->variant.count == before))
            return fail(c->e, SEALCAR_INCOMPATIBLE, "the daemon's list of payloads can't be kept");
        name = &s->variant.name; /* of that very state */
    } while (size_of(token));
    return 0;
}

static void find_folder(sealcar_scope *s)
{
    int models = 0;
    s->model = "";
    for (size_t i = 0; i < s->variant.count; i++)
        if (s->payloads[i].kind == SEALCAR_MODEL && ++models)
            s->model = s->payloads[i].name;
    const char *slash = models == 1 ? strrchr(s->model, '/') : NULL;
    s->folder = slash ? (size_t)(slash + 1 - s->model) : 0;
}

int sealcar_open(sealcar_client *client, const struct sealcar_name *name, sealcar_scope **made,
                 sealcar_error *error)
{
    sealcar_error unasked, *e = error ? error : &unasked;
    sealcar_scope *s = calloc(1, sizeof *s);
    *made = NULL;
    if (!s)
        return fail(e, SEALCAR_EXHAUSTED, "no memory for a scope");
    struct connection *c = lease(client, e);
    int failed = !c || open_on(c, s, name);
    give_back(client, c);
    if (failed) {
        sealcar_close(s);
        return placed(e, "opening", name, NULL);
    }
    s->client = client;
    find_folder(s);
    *made = s;
    return 0;
}

const struct sealcar_variant *sealcar_variant_of(const sealcar_scope *scope)
{
    return &scope->variant;
}

/* The payload of a name, which may be relative to the model's folder. */
static const struct sealcar_payload *find(const sealcar_scope *s, size_t folder, const char *name)
{
    for (size_t i = 0; i < s->variant.count; i++) {
        const struct sealcar_payload *p = &s->payloads[i];
        if (strncmp(p->name, s->model, folder) == 0 && strcmp(p->name + folder, name) == 0)
            return p;
    }
    return NULL;
}

const struct sealcar_payload *sealcar_find(const sealcar_scope *scope, const char *payload)
{
    return find(scope, 0, payload);
}

void sealcar_close(sealcar_scope *s)
{
    if (!s)
        return;
    forget(s->texts);
    free(s->payloads);
    free(s);
}

/* ---- reading --------------------------------------------------------------------------------- */
/* What of a payload hasn't come yet. */
struct gaps {
    uint64_t from[MAX_SLOTS], to[MAX_SLOTS];
    int count;
};

/* Fill a part of a gap. 0: it is no part of any, or too many would be left. */
static int fill(struct gaps *g, uint64_t from, uint64_t size)
{
    int i = 0;
    while (i < g->count && (from < g->from[i] || from >= g->to[i]))
        i++;
    if (i == g->count || !size || size > g->to[i] - from)
        return 0;
    if (from + size < g->to[i]) { /* what is behind it */
        if (g->count == MAX_SLOTS)
            return 0;
        g->from[g->count] = from + size;
        g->to[g->count++] = g->to[i];
    }
    g->to[i] = from;
    if (g->from[i] == from) { /* nothing is before it */
        g->count--;
        g->from[i] = g->from[g->count];
        g->to[i] = g->to[g->count];
    }
    return 1;
}

/* Every page is zeroed when it is first touched: huge ones, once. */
static void advise_huge(void *target, uint64_t size)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)target + page - 1) / page * page;
    uintptr_t last = ((uintptr_t)target + size) / page * page;
    if (size >= 4 << 20)
        madvise((void *)first, last - first, MADV_HUGEPAGE);
}

static int drain(struct connection *c, uint8_t *target, uint64_t size)
{
    struct gaps left = {.to = {size}, .count = size != 0};
    struct ring *r = &c->ring[0];
    advise_huge(target, size);
    for (;;) {
        if (answer(c, OR(A_PIECE) | OR(DONE), c->timeout))
            return -1;
        if (c->kind == DONE)
            break;
        uint64_t slot = number_of(c->body, 1), at = number_of(c->body, 2);
        uint64_t count = number_of(c->body, 3);
        if (slot >= r->slots || count > r->slot_size || !fill(&left, at, count))
            return broken(c, SEALCAR_UNAVAILABLE,
                          "the daemon announced bytes outside the payload or its ring, or twice");
        memcpy(target + at, r->at + slot * r->slot_size, count);
        begin(c, FREE);
        put_number(c, 1, slot);
        if (send_packet(c))
            return -1;
    }
    if (number_of(c->body, 1) != size || left.count)
        return broken(c, SEALCAR_TRUNCATED, "the daemon ended before every byte had come");
    c->usable = 1;
    return 0;
}

static void begin_read(struct connection *c, unsigned kind, const sealcar_scope *s,
                       const char *payload)
{
    begin(c, kind);
    put_scope(c, &s->variant.name);
    put_text(c, 2, payload);
}

static int read_on(struct connection *c, const sealcar_scope *s, const char *payload, void *target,
                   uint64_t size)
{
    struct field small;
    begin_read(c, READ, s, payload);
    if (request(c, OR(READING) | OR(RING)))
        return -1;
    int whole = find_field(c->body, 2, 2, &small);
    uint64_t there = whole ? size_of(small.bytes) : number_of(c->body, 1);
    c->usable = whole; /* else a transfer is under way */
    int failed = there == size ? 0
                               : fail(c->e, SEALCAR_INVALID_REQUEST,
                                      "the payload has %llu bytes, not %llu",
                                      (unsigned long long)there, (unsigned long long)size);
    if (!whole)
        return failed ? -1 : drain(c, target, size);
    if (!failed && size)
        memcpy(target, small.bytes.at, size);
    explicit_bzero((void *)small.bytes.at, there);
    return failed;
}

int sealcar_read(sealcar_scope *s, const char *payload, void *target, uint64_t size,
                 sealcar_error *error)
{
    sealcar_error unasked, *e = error ? error : &unasked;
    struct connection *c = lease(s->client, e);
    int failed = !c || read_on(c, s, payload, target, size);
    give_back(s->client, c);
    if (!failed)
        return 0;
    if (target && size)
        explicit_bzero(target, size); /* a part of it isn't a payload */
    return placed(e, "reading", &s->variant.name, payload);
}

static int map_on(struct connection *c, const sealcar_scope *s, const char *payload, void **at,
                  uint64_t *size)
{
    if (!c->segments)
        return fail(c->e, SEALCAR_INCOMPATIBLE, "this daemon shares no payloads: update it");
    begin_read(c, SEGMENT, s, payload);
    if (send_packet(c))
        return -1;
    do
        if (answer(c, OR(A_SEGMENT) | OR(FILLING), c->timeout))
            return -1;
    while (c->kind == FILLING);
    *size = number_of(c->body, 1);
    *at = map_sealed(c->handed, *size, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE, PROT_READ);
    if (!*at)
        return broken(c, SEALCAR_UNAVAILABLE,
                      "the daemon's segment is empty, or can still be changed");
    close_handed(c);
    begin(c, SEGMENT_RECEIVED);
    return send_packet(c);
}

int sealcar_map(sealcar_scope *s, const char *payload, const void **address, uint64_t *size,
                sealcar_error *error)
{
    sealcar_error unasked, *e = error ? error : &unasked;
    void *at = NULL;
    *size = 0;
    struct connection *c = lease(s->client, e);
    int failed = !c || map_on(c, s, payload, &at, size);
    give_back(s->client, c);
    if (failed) {
        sealcar_unmap(at, *size);
        at = NULL;
        *size = 0;
    }
    *address = at;
    return failed ? placed(e, "mapping", &s->variant.name, payload) : 0;
}

void sealcar_unmap(const void *address, uint64_t size)
{
    if (address)
        munmap((void *)address, size);
}

/* ---- writing --------------------------------------------------------------------------------- */
static void free_transaction(sealcar_transaction *t)
{
    if (t->connection)
        hang_up(t->connection);
    forget(t->texts);
    free(t);
}

static int begin_on(struct connection *c, sealcar_transaction *t, const struct sealcar_name *name)
{
    begin(c, BEGIN);
    put_scope(c, name);
    if (request(c, OR(BEGUN)))
        return -1;
    struct bytes id = bytes_of(c->body, 1);
    t->id_size = size_of(id);
    if (!t->id_size || t->id_size > sizeof t->id ||
        !take_name(&t->texts, bytes_of(c->body, 2), &t->name))
        return out_of_turn(c);
    memcpy(t->id, id.at, t->id_size);
    return 0;
}

int sealcar_begin(sealcar_client *client, const struct sealcar_name *name,
                  sealcar_transaction **made, sealcar_error *error)
{
    sealcar_error unasked, *e = error ? error : &unasked;
    sealcar_transaction *t = calloc(1, sizeof *t);
    *made = NULL;
    if (!t)
        return fail(e, SEALCAR_EXHAUSTED, "no memory for a transaction");
    t->client = client;
    t->process = getpid();
    t->connection = call(client, now_ms() + client->timeout, e);
    if (!t->connection || begin_on(t->connection, t, name)) {
        free_transaction(t);
        return placed(e, "beginning", name, NULL);
    }
    *made = t;
    return 0;
}

static int check_process(const sealcar_transaction *t, sealcar_error *e)
{
    return t->process == getpid() ? 0
                                  : fail(e, SEALCAR_WRONG_STATE,
                                         "this transaction belongs to the parent process");
}

/* Note which slots of the write ring may be filled again, a bit each. */
static int take_freed(struct connection *c, uint64_t *unused)
{
    struct bytes freed = bytes_of(c->body, 1);
    for (uint64_t slot; varint(&freed, &slot); *unused |= UINT64_C(1) << slot)
        if (slot >= c->ring[1].slots)
            return out_of_turn(c);
    return 0;
}

static int pour(struct connection *c, const uint8_t *data, uint64_t size)
{
    struct ring *r = &c->ring[1];
    uint64_t room = number_of(c->body, 1), later = number_of(c->body, 2), at = 0;
    if (!room || !later || room > r->slot_size || later > r->slot_size)
        return out_of_turn(c);
    uint64_t unused = UINT64_MAX >> (MAX_SLOTS - r->slots);
    do {
        while (!unused)
            if (answer(c, OR(FREED), c->timeout) || take_freed(c, &unused))
                return -1;
        int slot = __builtin_ctzll(unused);
        unused &= unused - 1;
        uint64_t some = size - at < room ? size - at : room;
        if (some)
            memcpy(r->at + (size_t)slot * r->slot_size, data + at, some);
        begin(c, PIECE);
        put_number(c, 1, (uint64_t)slot);
        put_number(c, 2, at);
        put_number(c, 3, some);
        at += some;
        put_number(c, 4, at == size);
        if (send_packet(c))
            return -1;
        room = later;
    } while (at < size);
    do
        if (answer(c, OR(FREED) | OR(WRITTEN), DISK_PATIENCE_MS))
            return -1;
    while (c->kind == FREED);
    c->usable = 1;
    return 0;
}

static int write_on(struct connection *c, const sealcar_transaction *t, const char *payload,
                    int kind, const void *data, uint64_t size)
{
    begin(c, WRITE);
    put_bytes(c, 1, t->id, t->id_size);
    put_text(c, 2, payload);
    put_number(c, 3, (uint64_t)(kind < 0 ? 0 : kind));
    put_number(c, 4, size);
    if (request(c, OR(WRITING) | OR(WRITE_RING)))
        return -1;
    c->usable = 0; /* a transfer is under way */
    return pour(c, data, size);
}

int sealcar_write(sealcar_transaction *t, const char *payload, int kind, const void *data,
                  uint64_t size, sealcar_error *error)
{
    sealcar_error unasked, *e = error ? error : &unasked;
    struct connection *c = check_process(t, e) ? NULL : lease(t->client, e);
    int failed = !c || write_on(c, t, payload, kind, data, size);
    give_back(t->client, c);
    if (failed)
        return placed(e, "writing", &t->name, payload);
    atomic_fetch_add(&t->written, 1);
    return 0;
}

int sealcar_commit(sealcar_transaction *t, const char *ep, const char *device,
                   const char *compatibility, const char *executor_info, uint64_t *generation,
                   sealcar_error *error)
{
    sealcar_error unasked, *e = error ? error : &unasked;
    struct connection *c = t->connection;
    c->e = e;
    begin(c, COMMIT);
    put_bytes(c, 1, t->id, t->id_size);
    put_number(c, 2, atomic_load(&t->written));
    put_text(c, 3, ep);
    put_text(c, 4, device);
    put_text(c, 5, compatibility);
    put_text(c, 6, executor_info);
    int failed = check_process(t, e) || send_packet(c) || answer(c, OR(COMMITTED), DISK_PATIENCE_MS);
    if (failed)
        placed(e, "publishing", &t->name, NULL);
    else if (generation)
        *generation = number_of(bytes_of(c->body, 1), 4);
    free_transaction(t);
    return failed ? -1 : 0;
}

void sealcar_abort(sealcar_transaction *t)
{
    sealcar_error unasked;
    if (!t)
        return;
    t->connection->e = &unasked;
    begin(t->connection, ABORT);
    put_bytes(t->connection, 1, t->id, t->id_size);
    if (!check_process(t, &unasked))
        (void)request(t->connection, OR(ABORTED));
    free_transaction(t);
}

/* ---- ONNX Runtime ---------------------------------------------------------------------------- */
static OrtStatus *status_of(void *const *api, int code, const char *text)
{
    if (!api) { /* a status can't be made, and success would be a lie */
        fputs("sealcar: a client that serves ONNX Runtime is connected with its OrtApiBase\n", stderr);
        abort();
    }
    return ((OrtStatus * (*)(int, const char *)) api[CREATE_STATUS])(code, text);
}

static uint64_t machine_memory(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

OrtStatus *sealcar_read_named_buffer(void *state, const char *name, OrtAllocator *allocator,
                                     void **buffer, size_t *size)
{
    sealcar_scope *s = state;
    sealcar_error e;
    if (buffer)
        *buffer = NULL;
    if (size)
        *size = 0;
    if (!s || !name || !allocator || !buffer || !size)
        return status_of(s ? s->client->api : NULL, ORT_INVALID_ARGUMENT,
                         "the read callback got an empty argument");
    const struct sealcar_payload *blob = find(s, s->folder, name);
    if (!blob || blob->kind != SEALCAR_BLOB || !blob->size || blob->size > machine_memory()) {
        fail(&e, SEALCAR_NOT_FOUND, "the variant has no such blob, or one that nothing can hold");
        placed(&e, "reading", &s->variant.name, name);
        return status_of(s->client->api, ORT_FAIL, e.text);
    }
    void *target = allocator->alloc(allocator, blob->size);
    if (!target)
        return status_of(s->client->api, ORT_FAIL, "no memory for a blob");
    if (sealcar_read(s, blob->name, target, blob->size, &e)) {
        allocator->free(allocator, target);
        return status_of(s->client->api, ORT_FAIL, e.text);
    }
    *buffer = target;
    *size = blob->size;
    return NULL;
}

OrtStatus *sealcar_write_named_buffer(void *state, const char *name, const void *data, size_t size)
{
    sealcar_transaction *t = state;
    sealcar_error e;
    if (!t || !name || (!data && size))
        return status_of(t ? t->client->api : NULL, ORT_INVALID_ARGUMENT,
                         "the write callback got no name or no data");
    if (sealcar_write(t, name, SEALCAR_BLOB, data, size, &e))
        return status_of(t->client->api, ORT_FAIL, e.text);
    return NULL;
}

/* A setter of callbacks: the stable one in its slot, or the experimental one of an older runtime. */
static void *setter(const sealcar_client *client, void *const *table, int slot, const char *old)
{
    if (client->minor >= FIRST_STABLE)
        return table[slot];
    return ((void *(*)(const char *))client->api[GET_EXPERIMENTAL])(old);
}

OrtStatus *sealcar_set_read(sealcar_scope *s, OrtSessionOptions *options)
{
    void *const *api = s->client->api;
    void *set = api ? setter(s->client, api, SET_READ, OLD_SET_READ) : NULL;
    if (!set)
        return status_of(api, ORT_FAIL, "this ONNX Runtime has no EPContext data callbacks");
    return ((OrtStatus * (*)(OrtSessionOptions *, read_named, void *)) set)(
        options, sealcar_read_named_buffer, s);
}

OrtStatus *sealcar_set_write(sealcar_transaction *t, OrtModelCompilationOptions *options)
{
    void *const *api = t->client->api, *const *table = NULL;
    if (api)
        table = ((void *const *(*)(void))api[GET_COMPILE_API])();
    void *set = table ? setter(t->client, table, COMPILE_SET_WRITE, OLD_SET_WRITE) : NULL;
    if (!set)
        return status_of(api, ORT_FAIL, "this ONNX Runtime has no EPContext data callbacks");
    return ((OrtStatus * (*)(OrtModelCompilationOptions *, write_named, void *)) set)(
        options, sealcar_write_named_buffer, t);
}

/* what RegisterCustomOps made, for the life of the process: no call tells when a session ends */
static _Atomic(sealcar_client *) registered_client;
static _Atomic(sealcar_scope *) registered_scopes;

static sealcar_client *shared_client(const OrtApiBase *ort, sealcar_error *e)
{
    sealcar_client *there = atomic_load(&registered_client), *made;
    if (there)
        return there;
    if (sealcar_connect(NULL, -1, 30000, ort, &made, e))
        return NULL;
    if (atomic_compare_exchange_strong(&registered_client, &there, made))
        return made;
    sealcar_disconnect(made); /* another thread was first */
    return there;
}

static int same(const struct sealcar_name *a, const struct sealcar_name *b)
{
    return a->generation == b->generation && !strcmp(a->package, b->package) &&
           !strcmp(a->version, b->version) && !strcmp(a->component, b->component) &&
           !strcmp(a->variant, b->variant);
}

static sealcar_scope *shared_scope(sealcar_client *client, sealcar_error *e)
{
    struct sealcar_name name = {
        .package = secure_getenv("SEALCAR_PACKAGE"), .version = secure_getenv("SEALCAR_VERSION"),
        .component = secure_getenv("SEALCAR_COMPONENT"), .variant = secure_getenv("SEALCAR_VARIANT")};
    int64_t generation = 0;
    sealcar_scope *made, *first = atomic_load(&registered_scopes);
    if (!name.package || !name.component || !name.variant) {
        fail(e, SEALCAR_INVALID_REQUEST,
             "set SEALCAR_PACKAGE, SEALCAR_COMPONENT and SEALCAR_VARIANT to what is to be read");
        return NULL;
    }
    if (take_variable("SEALCAR_GENERATION", &generation, e))
        return NULL;
    name.generation = (uint64_t)generation;
    if (sealcar_open(client, &name, &made, e))
        return NULL;
    for (sealcar_scope *s = first; s; s = s->next)
        if (same(&s->variant.name, &made->variant.name)) {
            sealcar_close(made);
            return s;
        }
    made->next = first;
    while (!atomic_compare_exchange_strong(&registered_scopes, &made->next, made))
        ;
    return made;
}

OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *ort)
{
    sealcar_error e;
    sealcar_client *client = shared_client(ort, &e);
    sealcar_scope *scope = client ? shared_scope(client, &e) : NULL;
    if (scope)
        return sealcar_set_read(scope, options);
    /* the oldest table has this function where the newest has it */
    return status_of(((const struct api_base *)ort)->get_api(1), ORT_FAIL, e.text);
}
