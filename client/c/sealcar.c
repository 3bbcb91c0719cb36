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
    CONNECTIONS = 8,
    RETRY_MS = 50,
    DISK_PATIENCE_MS = 600000, /* publishing and syncing wait for the disk */
    MAX_LINKS = 40,
    MAX_PIECES = 64, /* that come out of order and don't touch each other; a ring has 8 slots */
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

enum { UNUSED, IDLE, BUSY }; /* of a place for a connection */

struct ring {
    uint8_t *at;
    uint32_t slots, slot_size;
};

struct connection {
    int fd, usable, segments;
    struct ring ring[2]; /* that we read, that we write */
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

struct sealcar_scope {
    sealcar_client *client;
    struct sealcar_variant variant;
    struct sealcar_payload *payloads;
    size_t folder; /* bytes of the model's name before its last part: its blobs lie beside it */
    sealcar_scope *next; /* of those that RegisterCustomOps opened */
};

struct sealcar_transaction {
    sealcar_client *client;
    struct connection *connection; /* kept open: the transaction ends with the last one */
    pid_t process;
    struct sealcar_name name;
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

static int placed(sealcar_error *e, const char *phase, const struct sealcar_name *name,
                  const char *payload)
{
    sealcar_error inner = *e;
    fail(e, inner.reason, "%s %.200s%sof %.64s/%.64s/%.64s: %s", phase, payload, *payload ? " " : "",
         name->package, name->component, name->variant, inner.text);
    e->retry_after_ms = inner.retry_after_ms;
    return -1;
}

/* ---- protobuf -------------------------------------------------------------------------------- */
struct bytes {
    const uint8_t *at, *end;
};

struct field {
    uint32_t number, wire;
    uint64_t value;
    struct bytes bytes;
};

struct out {
    uint8_t *at;
    size_t size;
    int reason; /* why it can't be sent; 0: it can */
};

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
    uint64_t tag;
    *f = (struct field){0};
    if (in->at == in->end)
        return 0;
    if (!varint(in, &tag) || tag >> 3 == 0 || tag >> 3 > 536870911)
        return -1;
    f->number = (uint32_t)(tag >> 3);
    f->wire = tag & 7;
    size_t left = (size_t)(in->end - in->at), size = f->wire == 1 ? 8 : 4;
    switch (f->wire) {
    case 0:
        return varint(in, &f->value) ? 1 : -1;
    case 2:
        if (!varint(in, &f->value) || f->value > (uint64_t)(in->end - in->at))
            return -1;
        f->bytes = (struct bytes){in->at, in->at + f->value};
        in->at += f->value;
        return 1;
    case 1:
    case 5:
        if (left < size)
            return -1;
        in->at += size;
        return 1;
    default:
        return -1;
    }
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

static size_t size_of(struct bytes b)
{
    return (size_t)(b.end - b.at);
}

static void put_varint(struct out *o, uint64_t value)
{
    for (int more = 1; more; value >>= 7) {
        more = value > 0x7f;
        if (o->size == PACKET)
            o->reason = SEALCAR_INVALID_REQUEST;
        else
            o->at[o->size++] = (uint8_t)(value & 0x7f) | (more ? 0x80 : 0);
    }
}

static void put_number(struct out *o, uint32_t number, uint64_t value)
{
    put_varint(o, (uint64_t)number << 3);
    put_varint(o, value);
}

static void put_bytes(struct out *o, uint32_t number, const void *data, size_t size)
{
    put_varint(o, (uint64_t)number << 3 | 2);
    put_varint(o, size);
    if (o->reason || size > PACKET - o->size) {
        o->reason = SEALCAR_INVALID_REQUEST;
        return;
    }
    if (size)
        memcpy(o->at + o->size, data, size);
    o->size += size;
}

/* Protobuf's texts are UTF-8: the daemon would hang up on anything else. */
static int is_utf8(const uint8_t *s)
{
    while (*s) {
        int more = *s < 0x80 ? 0 : *s >= 0xc2 && *s < 0xe0 ? 1 : *s >= 0xe0 && *s < 0xf0 ? 2
                                       : *s >= 0xf0 && *s < 0xf5 ? 3 : -1;
        if (more < 0 || (*s == 0xe0 && s[1] < 0xa0) || (*s == 0xed && s[1] > 0x9f) ||
            (*s == 0xf0 && s[1] < 0x90) || (*s == 0xf4 && s[1] > 0x8f))
            return 0;
        for (s++; more > 0; more--, s++)
            if ((*s & 0xc0) != 0x80)
                return 0;
    }
    return 1;
}

static void put_text(struct out *o, uint32_t number, const char *text)
{
    if (!text || !*text)
        return;
    if (!is_utf8((const uint8_t *)text))
        o->reason = SEALCAR_INVALID_NAME;
    put_bytes(o, number, text, strlen(text));
}

static size_t open_message(struct out *o, uint32_t number)
{
    put_varint(o, (uint64_t)number << 3 | 2);
    return o->size;
}

static void close_message(struct out *o, size_t start)
{
    uint8_t digits[10];
    struct out length = {digits, 0, 0};
    put_varint(&length, o->size - start);
    if (o->reason || length.size > PACKET - o->size) {
        o->reason = SEALCAR_INVALID_REQUEST;
        return;
    }
    memmove(o->at + start + length.size, o->at + start, o->size - start);
    memcpy(o->at + start, digits, length.size);
    o->size += length.size;
}

static void put_scope(struct out *o, uint32_t number, const struct sealcar_name *name)
{
    size_t scope = open_message(o, number), package = open_message(o, 1);
    put_text(o, 1, name->package);
    put_text(o, 2, name->version);
    close_message(o, package);
    put_text(o, 2, name->component);
    put_text(o, 3, name->variant);
    if (name->generation)
        put_number(o, 4, name->generation);
    close_message(o, scope);
}

/* ---- who the daemon is ----------------------------------------------------------------------- */
static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* What stands on the way to the socket directory: a directory or a link. */
struct way {
    uid_t owner[256];
    mode_t mode[256];
    char made_by_any[256]; /* others could have made it: they can write to what it is in */
    int count, last;       /* the directory itself */
};

static int is_open(mode_t mode)
{
    return !S_ISLNK(mode) && mode & (S_IWGRP | S_IWOTH);
}

static int step(struct way *w, const char *path, int inside)
{
    struct stat found;
    if (w->count == 256 || lstat(*path ? path : "/", &found))
        return -1;
    w->owner[w->count] = found.st_uid;
    w->mode[w->count] = found.st_mode;
    w->made_by_any[w->count] = inside >= 0 && is_open(w->mode[inside]);
    return w->count++;
}

/* Walk from / to the directory, links too, as the kernel would. */
static int walk(const char *directory, struct way *w)
{
    char here[PATH_MAX] = "", rest[PATH_MAX], target[PATH_MAX];
    int links = 0, at;
    w->count = 0;
    if (snprintf(rest, sizeof rest, "%s", directory) >= PATH_MAX || (at = step(w, here, -1)) < 0)
        return -1;
    for (char *part = rest; *(part += strspn(part, "/"));) {
        size_t length = strcspn(part, "/"), before = strlen(here);
        char *after = part + length;
        if (length == 2 && memcmp(part, "..", 2) == 0) {
            char *parent = strrchr(here, '/');
            if (parent)
                *parent = 0;
            if ((at = step(w, here, -1)) < 0)
                return -1;
        } else if (length != 1 || *part != '.') {
            int inside = at;
            if (before + length + 2 > sizeof here)
                return -1;
            snprintf(here + before, sizeof here - before, "/%.*s", (int)length, part);
            if ((at = step(w, here, inside)) < 0)
                return -1;
            if (S_ISLNK(w->mode[at])) {
                ssize_t size = readlink(here, target, sizeof target - 1);
                if (size <= 0 || ++links > MAX_LINKS ||
                    (size_t)size + strlen(after) + 1 > sizeof target)
                    return -1;
                strcpy(target + size, after);
                here[*target == '/' ? 0 : before] = 0;
                at = *target == '/' ? 0 : inside;
                strcpy(rest, target);
                part = rest;
                continue;
            }
        }
        part = after;
    }
    w->last = at;
    return 0;
}

/* Whose the directory is, as long as nobody else could have put it there. */
static int owner_of(const char *directory, int64_t *owner, sealcar_error *e)
{
    struct way w;
    if (walk(directory, &w))
        return fail(e, SEALCAR_UNAVAILABLE, "no daemon listens at %s", directory);
    uid_t me = geteuid(), last = w.owner[w.last];
    for (int i = 0; i < w.count; i++) {
        uid_t uid = w.owner[i];
        /* a sticky directory such as /tmp keeps what is in it from being replaced, but not from
         * being made by whoever comes first */
        if ((is_open(w.mode[i]) && (i == w.last || !(w.mode[i] & S_ISVTX))) ||
            (w.made_by_any[i] && uid && uid != me) || (uid && uid != me && uid != last))
            return fail(e, SEALCAR_INVALID_REQUEST,
                        "others than its owner can write to %s or replace it, so its owner doesn't "
                        "tell who the daemon is: give peer_uid or $SEALCAR_PEER_UID, or chmod go-w",
                        directory);
    }
    *owner = last;
    return 0;
}

/* ---- packets --------------------------------------------------------------------------------- */
struct packet {
    unsigned kind; /* a field of DaemonPacket; 0: one that this release doesn't know */
    struct bytes body;
    int fd; /* -1: none */
};

static int broken(struct connection *c, sealcar_error *e, int reason, const char *why)
{
    c->usable = 0;
    shutdown(c->fd, SHUT_RDWR); /* the daemon frees what it holds for us now */
    return fail(e, reason, "%s", why);
}

static int out_of_turn(struct connection *c, sealcar_error *e)
{
    return broken(c, e, SEALCAR_UNAVAILABLE, "the daemon answered out of turn");
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
    for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h))
        if (h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS &&
            h->cmsg_len >= CMSG_LEN(sizeof fd))
            memcpy(&fd, CMSG_DATA(h), sizeof fd);
    return fd;
}

static int receive(struct connection *c, int patience, struct packet *p, sealcar_error *e)
{
    /* room for one descriptor and not a byte more: the padding would take a second one */
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    int64_t deadline = now_ms() + patience;
    for (int resets = 0;;) {
        struct iovec io = {c->in, sizeof c->in};
        struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = &control,
                           .msg_controllen = CMSG_LEN(sizeof(int))};
        ssize_t size = recvmsg(c->fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
        if (size < 0 && errno == EAGAIN) {
            if (!wait_for(c->fd, POLLIN, deadline))
                return broken(c, e, SEALCAR_TIMED_OUT, "the daemon was silent for too long");
            continue;
        }
        /* a reset comes once, and before the packets that the daemon sent before it closed */
        if (size < 0 && (errno == EINTR || (errno == ECONNRESET && !resets++)))
            continue;
        p->fd = size < 0 ? -1 : descriptor_of(&m);
        if (size <= 0 || m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
            if (p->fd >= 0)
                close(p->fd);
            return broken(c, e, SEALCAR_UNAVAILABLE,
                          size <= 0 ? "the daemon closed the connection"
                                    : "a packet over the limits of the data socket came in");
        }
        p->body = (struct bytes){c->in, c->in + size};
        return 0;
    }
}

static int unpack(struct packet *p)
{
    struct bytes in = p->body;
    struct field f;
    int found;
    p->kind = 0;
    while ((found = next_field(&in, &f)) > 0)
        if (f.wire == 2 && f.number >= ATTESTED && f.number <= FILLING) {
            p->kind = f.number;
            p->body = f.bytes;
        }
    if (found < 0)
        return -1;
    for (in = p->body; p->kind && (found = next_field(&in, &f)) > 0;)
        ;
    return found;
}

static int put_on_the_wire(struct connection *c, struct out *o, sealcar_error *e)
{
    int64_t deadline = now_ms() + 30000;
    if (o->reason)
        return fail(e, o->reason, "a text in this request isn't UTF-8, or they are too long");
    for (;;) {
        ssize_t sent = send(c->fd, o->at, o->size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0)
            return 0;
        if (errno == EAGAIN && !wait_for(c->fd, POLLOUT, deadline))
            return broken(c, e, SEALCAR_TIMED_OUT, "the daemon didn't take a packet in time");
        if (errno != EAGAIN && errno != EINTR)
            return 1; /* gone: it may have said why before it closed */
    }
}

static int refused(const struct packet *p, sealcar_error *e)
{
    struct bytes message = bytes_of(p->body, 2);
    int reason = (int)(number_of(p->body, 1) & 0xff);
    fail(e, reason ? reason : SEALCAR_UNAVAILABLE, "%.*s", (int)size_of(message),
         message.at ? (const char *)message.at : "");
    e->retry_after_ms = number_of(p->body, 8);
    return -1;
}

static int send_packet(struct connection *c, struct out *o, sealcar_error *e)
{
    struct packet p;
    int sent = put_on_the_wire(c, o, e);
    if (sent <= 0)
        return sent;
    while (receive(c, RETRY_MS, &p, e) == 0) {
        if (p.fd >= 0)
            close(p.fd);
        if (unpack(&p) == 0 && p.kind == ERROR) {
            c->usable = 0;
            return refused(&p, e);
        }
    }
    return broken(c, e, SEALCAR_UNAVAILABLE, "the daemon is gone");
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

static int attach(struct connection *c, const struct packet *p, sealcar_error *e)
{
    int writable = p->kind == WRITE_RING;
    uint64_t slots = number_of(p->body, 1), slot_size = number_of(p->body, 2);
    struct ring *r = &c->ring[writable];
    unmap_ring(r);
    if (slots <= UINT32_MAX && slot_size <= UINT32_MAX)
        r->at = map_sealed(p->fd, slots * slot_size, F_SEAL_SHRINK | F_SEAL_GROW,
                           writable ? PROT_READ | PROT_WRITE : PROT_READ);
    close(p->fd);
    if (!r->at)
        return broken(c, e, SEALCAR_UNAVAILABLE,
                      "the daemon's ring isn't what was announced, or can still change its size");
    r->slots = (uint32_t)slots;
    r->slot_size = (uint32_t)slot_size;
    /* a child of fork has no use for it, and the daemon counts it as long as it is mapped */
    madvise(r->at, slots * slot_size, MADV_DONTFORK);
    struct out o = {c->out, 0, 0};
    close_message(&o, open_message(&o, RING_MAPPED));
    return send_packet(c, &o, e);
}

/* The next packet of a wanted kind. A ring is mapped and acknowledged, but only before a transfer:
 * in its midst slots of the old one are still in use. */
static int answer(struct connection *c, unsigned wanted, int patience, struct packet *p,
                  sealcar_error *e)
{
    for (;;) {
        if (receive(c, patience, p, e))
            return -1;
        int malformed = unpack(p);
        if (!malformed && p->fd >= 0 && ((p->kind == RING && wanted & OR(READING)) ||
                                         (p->kind == WRITE_RING && wanted & OR(WRITING)))) {
            if (attach(c, p, e))
                return -1;
            continue;
        }
        if (!malformed && p->kind == A_SEGMENT && wanted & OR(A_SEGMENT) && p->fd >= 0)
            return 0;
        if (p->fd >= 0)
            close(p->fd);
        if (malformed || p->fd >= 0)
            return out_of_turn(c, e);
        if (p->kind == ERROR)
            return refused(p, e);
        return wanted & OR(p->kind) ? 0 : out_of_turn(c, e);
    }
}

static int request(struct connection *c, struct out *o, unsigned wanted, int patience,
                   struct packet *p, sealcar_error *e)
{
    return send_packet(c, o, e) ? -1 : answer(c, wanted, patience, p, e);
}

/* ---- connections ----------------------------------------------------------------------------- */
static void hang_up(struct connection *c)
{
    /* in this order: the daemon counts the rings for as long as they are mapped */
    unmap_ring(&c->ring[0]);
    unmap_ring(&c->ring[1]);
    if (c->fd >= 0)
        close(c->fd);
    explicit_bzero(c->in, sizeof c->in); /* small payloads came through it */
    free(c);
}

/* 0: connected; 1: not yet; -1: never */
static int dial(const sealcar_client *client, struct connection *c, sealcar_error *e)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    struct ucred peer;
    socklen_t size = sizeof peer;
    int64_t expected = client->peer;
    if (expected < 0 && owner_of(client->directory, &expected, e))
        return e->reason == SEALCAR_UNAVAILABLE ? 1 : -1;
    snprintf(to.sun_path, sizeof to.sun_path, "%.97s/data.sock", client->directory);
    c->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (c->fd < 0)
        return fail(e, SEALCAR_EXHAUSTED, "no socket: %s", strerror(errno));
    if (connect(c->fd, (struct sockaddr *)&to, sizeof to)) {
        int denied = errno == EACCES || errno == EPERM;
        fail(e, denied ? SEALCAR_DENIED : SEALCAR_UNAVAILABLE, "no daemon at %s: %s",
             client->directory, strerror(errno));
        return denied ? -1 : 1;
    }
    if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) || (int64_t)peer.uid != expected)
        return fail(e, SEALCAR_UNAVAILABLE, "uid %u listens at %s, but the daemon must have uid %u",
                    (unsigned)peer.uid, client->directory, (unsigned)expected);
    return 0;
}

/* 0: it is the daemon, and speaks our protocol; 1: it is just going, or just coming; -1: never */
static int attest(const sealcar_client *client, struct connection *c, sealcar_error *e)
{
    struct packet p;
    struct out o = {c->out, 0, 0};
    size_t hello = open_message(&o, ATTEST);
    put_number(&o, 1, PROTOCOL);
    put_text(&o, 2, RELEASE);
    close_message(&o, hello);
    c->usable = 1;
    if (request(c, &o, OR(ATTESTED), client->timeout, &p, e))
        return e->reason == SEALCAR_UNAVAILABLE ? 1 : -1;
    c->segments = number_of(p.body, 5) != 0;
    uint64_t spoken = number_of(p.body, 1);
    if (spoken != PROTOCOL)
        return fail(e, SEALCAR_INCOMPATIBLE, "the daemon speaks protocol %u, we speak %u: update %s",
                    (unsigned)spoken, (unsigned)PROTOCOL,
                    spoken < PROTOCOL ? "the daemon" : "this client");
    return 0;
}

static struct connection *call(const sealcar_client *client, int64_t deadline, sealcar_error *e)
{
    for (;;) {
        struct connection *c = calloc(1, sizeof *c);
        if (!c) {
            fail(e, SEALCAR_EXHAUSTED, "no memory for a connection");
            return NULL;
        }
        c->fd = -1;
        int later = dial(client, c, e);
        if (!later)
            later = attest(client, c, e);
        if (!later)
            return c;
        hang_up(c);
        if (later < 0 || now_ms() + RETRY_MS >= deadline)
            return NULL;
        nanosleep(&(struct timespec){0, RETRY_MS * 1000000}, NULL);
    }
}

/* In a child of fork: drop the parent's connections, which only the parent may speak on. */
static void take_over(sealcar_client *client)
{
    for (pid_t me = getpid(), held; (held = atomic_load(&client->process)) != me; sched_yield()) {
        if (held == -me || !atomic_compare_exchange_strong(&client->process, &held, -me))
            continue;
        for (int i = 0; i < CONNECTIONS; i++) {
            struct connection *c = client->place[i].connection;
            client->place[i].connection = NULL;
            if (c) {
                c->ring[0].at = c->ring[1].at = NULL; /* they didn't come along */
                hang_up(c);
            }
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

static void give_back(sealcar_client *client, int place)
{
    struct connection *c = client->place[place].connection;
    int usable = c->usable;
    if (!usable) {
        client->place[place].connection = NULL;
        hang_up(c);
    }
    atomic_store(&client->place[place].state, usable ? IDLE : UNUSED);
}

/* A connection for one request; its place, to be given back, or -1. */
static int lease(sealcar_client *client, sealcar_error *e)
{
    int64_t deadline = now_ms() + client->timeout;
    int place;
    take_over(client);
    while ((place = claim(client, IDLE)) < 0 && (place = claim(client, UNUSED)) < 0) {
        if (now_ms() >= deadline)
            return fail(e, SEALCAR_TIMED_OUT, "all %d connections were busy", CONNECTIONS);
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    struct connection **c = &client->place[place].connection;
    if (*c && wait_for((*c)->fd, POLLIN, 0)) { /* what comes unasked is the daemon's farewell */
        hang_up(*c);
        *c = NULL;
    }
    if (!*c && !(*c = call(client, deadline, e))) {
        atomic_store(&client->place[place].state, UNUSED);
        return -1;
    }
    return place;
}

static int find_directory(sealcar_client *client, const char *given, sealcar_error *e)
{
    char path[PATH_MAX], working[PATH_MAX];
    const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
    struct stat found;
    if (!given)
        given = secure_getenv("SEALCAR_SOCKET");
    if (given && *given == '/')
        snprintf(path, sizeof path, "%s", given);
    else if (given && *given && getcwd(working, sizeof working / 2))
        snprintf(path, sizeof path, "%.2047s/%.2000s", working, given);
    else if (stat(SYSTEM_DIRECTORY, &found) == 0 && S_ISDIR(found.st_mode))
        strcpy(path, SYSTEM_DIRECTORY);
    else if (runtime && *runtime)
        snprintf(path, sizeof path, "%.2000s/sealcar/default", runtime);
    else
        return fail(e, SEALCAR_INVALID_REQUEST,
                    "where is the daemon? Give the listener's directory, or set $SEALCAR_SOCKET");
    size_t length = strlen(path);
    if (length + sizeof "/data.sock" > sizeof client->directory)
        return fail(e, SEALCAR_INVALID_REQUEST,
                    "the path of the data socket is longer than a Unix socket's can be");
    memcpy(client->directory, path, length + 1);
    return 0;
}

static int find_peer(int64_t *peer, sealcar_error *e)
{
    const char *text = secure_getenv("SEALCAR_PEER_UID");
    if (*peer >= 0 || !text || !*text)
        return 0;
    size_t digits = strspn(text, "0123456789");
    if (text[digits] || digits > 10)
        return fail(e, SEALCAR_INVALID_REQUEST, "$SEALCAR_PEER_UID must be a uid in decimal digits");
    *peer = strtoll(text, NULL, 10);
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
    int failed = find_directory(client, directory, e) || find_peer(&client->peer, e);
    if (!failed && base) {
        client->api = base->get_api(API_VERSION);
        if (!client->api || sscanf(base->get_version(), "1.%d", &client->minor) != 1)
            failed = fail(e, SEALCAR_INCOMPATIBLE, "ONNX Runtime 1.28 or later is needed");
    }
    int place = failed ? -1 : lease(client, e);
    if (place < 0) {
        free(client);
        return -1;
    }
    give_back(client, place);
    *made = client;
    return 0;
}

void sealcar_disconnect(sealcar_client *client)
{
    if (!client)
        return;
    take_over(client);
    for (int i = 0; i < CONNECTIONS; i++)
        if (client->place[i].connection)
            hang_up(client->place[i].connection);
    free(client);
}

/* ---- opening --------------------------------------------------------------------------------- */
/* A copy of a text of the daemon's; NULL for one that C can't have, or without memory. */
static char *text_of(struct bytes in, uint32_t number)
{
    struct bytes b = bytes_of(in, number);
    return b.at && memchr(b.at, 0, size_of(b)) ? NULL : strndup(b.at ? (const char *)b.at : "",
                                                                 size_of(b));
}

static int take_name(struct bytes scope, struct sealcar_name *name)
{
    struct bytes package = bytes_of(scope, 1);
    name->package = text_of(package, 1);
    name->version = text_of(package, 2);
    name->component = text_of(scope, 2);
    name->variant = text_of(scope, 3);
    name->generation = number_of(scope, 4);
    return name->package && name->version && name->component && name->variant;
}

static void free_name(struct sealcar_name *name)
{
    free((char *)name->package);
    free((char *)name->version);
    free((char *)name->component);
    free((char *)name->variant);
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
    *p = (struct sealcar_payload){.name = text_of(info, 1), .kind = (int)(number_of(info, 2) & 0xff),
                                  .size = number_of(info, 3), .sealed = number_of(info, 4) != 0};
    if (size_of(identity) == sizeof p->identity)
        memcpy(p->identity, identity.at, sizeof p->identity);
    if (!p->name)
        return 0;
    s->variant.count++;
    return 1;
}

/* 1: another page; 0: that was the last; -1: failed */
static int take_page(sealcar_scope *s, struct bytes page, struct out *next, sealcar_error *e)
{
    struct bytes info = bytes_of(page, 2), token = bytes_of(page, 3), in = info;
    struct sealcar_variant *v = &s->variant;
    struct field f;
    size_t before = v->count;
    int whole = 1;
    if (!v->ep)
        whole = take_name(bytes_of(page, 1), &v->name) && (v->ep = text_of(info, 3)) &&
                (v->device = text_of(info, 4)) && (v->compatibility = text_of(info, 5)) &&
                (v->executor_info = text_of(info, 6));
    while (whole && next_field(&in, &f) > 0)
        if (f.number == 7 && f.wire == 2)
            whole = take_payload(s, f.bytes);
    if (!whole || (size_of(token) && v->count == before))
        return fail(e, SEALCAR_INCOMPATIBLE, "the daemon's list of payloads can't be kept");
    if (!size_of(token))
        return 0;
    size_t open = open_message(next, OPEN);
    put_scope(next, 1, &v->name);
    put_bytes(next, 2, token.at, size_of(token));
    close_message(next, open);
    return 1;
}

static void find_folder(sealcar_scope *s)
{
    const char *model = NULL;
    for (size_t i = 0; i < s->variant.count; i++)
        if (s->payloads[i].kind == SEALCAR_MODEL) {
            if (model)
                return;
            model = s->payloads[i].name;
        }
    const char *slash = model ? strrchr(model, '/') : NULL;
    s->folder = slash ? (size_t)(slash + 1 - model) : 0;
}

int sealcar_open(sealcar_client *client, const struct sealcar_name *name, sealcar_scope **made,
                 sealcar_error *error)
{
    sealcar_error unasked, *e = error ? error : &unasked;
    sealcar_scope *s = calloc(1, sizeof *s);
    int place = s ? lease(client, e) : fail(e, SEALCAR_EXHAUSTED, "no memory for a scope");
    int more = place < 0 ? -1 : 1;
    *made = NULL;
    if (place >= 0) {
        struct connection *c = client->place[place].connection;
        struct packet p;
        struct out o = {c->out, 0, 0};
        size_t open = open_message(&o, OPEN);
        put_scope(&o, 1, name);
        close_message(&o, open);
        while (more > 0) {
            more = request(c, &o, OR(OPENED), client->timeout, &p, e);
            o.size = 0;
            if (!more)
                more = take_page(s, p.body, &o, e);
        }
        give_back(client, place);
    }
    if (more < 0) {
        sealcar_close(s);
        return placed(e, "opening", name, "");
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

const struct sealcar_payload *sealcar_find(const sealcar_scope *scope, const char *payload)
{
    for (size_t i = 0; i < scope->variant.count; i++)
        if (strcmp(scope->payloads[i].name, payload) == 0)
            return &scope->payloads[i];
    return NULL;
}

void sealcar_close(sealcar_scope *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->variant.count; i++)
        free((char *)s->payloads[i].name);
    free(s->payloads);
    free_name(&s->variant.name);
    free((char *)s->variant.ep);
    free((char *)s->variant.device);
    free((char *)s->variant.compatibility);
    free((char *)s->variant.executor_info);
    free(s);
}

/* ---- reading --------------------------------------------------------------------------------- */
struct covered {
    uint64_t from[MAX_PIECES], to[MAX_PIECES];
    int count;
};

/* Note a piece. 0: it overlaps another, or too many are apart. */
static int cover(struct covered *k, uint64_t from, uint64_t to)
{
    for (int i = 0; i < k->count;) {
        if (from < k->to[i] && k->from[i] < to)
            return 0;
        if (from != k->to[i] && to != k->from[i]) {
            i++;
            continue;
        }
        from = from < k->from[i] ? from : k->from[i];
        to = to > k->to[i] ? to : k->to[i];
        k->count--;
        k->from[i] = k->from[k->count];
        k->to[i] = k->to[k->count];
        i = 0;
    }
    if (k->count == MAX_PIECES)
        return 0;
    k->from[k->count] = from;
    k->to[k->count++] = to;
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

static int drain(const sealcar_client *client, struct connection *c, uint8_t *target, uint64_t size,
                 sealcar_error *e)
{
    struct covered came = {.count = 0};
    struct ring *r = &c->ring[0];
    struct packet p;
    for (;;) {
        if (answer(c, OR(A_PIECE) | OR(DONE), client->timeout, &p, e))
            return -1;
        if (p.kind == DONE)
            break;
        uint64_t slot = number_of(p.body, 1), at = number_of(p.body, 2);
        uint64_t count = number_of(p.body, 3);
        if (!r->at || slot >= r->slots || !count || count > r->slot_size || at > size ||
            count > size - at || !cover(&came, at, at + count))
            return broken(c, e, SEALCAR_UNAVAILABLE,
                          "the daemon announced bytes outside the payload or its ring, or twice");
        memcpy(target + at, r->at + slot * r->slot_size, count);
        struct out o = {c->out, 0, 0};
        size_t freed = open_message(&o, FREE);
        uint8_t packed[10];
        struct out digits = {packed, 0, 0};
        put_varint(&digits, slot);
        put_bytes(&o, 1, packed, digits.size);
        close_message(&o, freed);
        if (send_packet(c, &o, e))
            return -1;
    }
    if (number_of(p.body, 1) != size || came.count != (size != 0) ||
        (size && (came.from[0] != 0 || came.to[0] != size)))
        return broken(c, e, SEALCAR_TRUNCATED, "the daemon ended before every byte had come");
    return 0;
}

static void put_read(struct out *o, unsigned kind, const sealcar_scope *s, const char *payload)
{
    size_t read = open_message(o, kind);
    put_scope(o, 1, &s->variant.name);
    put_text(o, 2, payload);
    close_message(o, read);
}

int sealcar_read(sealcar_scope *s, const char *payload, void *target, uint64_t size,
                 sealcar_error *error)
{
    sealcar_error unasked, *e = error ? error : &unasked;
    struct packet p = {.kind = 0};
    struct field small;
    int place = lease(s->client, e), failed = place < 0;
    if (!failed) {
        struct connection *c = s->client->place[place].connection;
        struct out o = {c->out, 0, 0};
        put_read(&o, READ, s, payload);
        failed = request(c, &o, OR(READING), s->client->timeout, &p, e);
        int whole = !failed && find_field(p.body, 2, 2, &small);
        uint64_t there = failed ? 0 : whole ? size_of(small.bytes) : number_of(p.body, 1);
        if (!failed && there != size) {
            c->usable = whole; /* the transfer of a large one is under way */
            failed = fail(e, SEALCAR_INVALID_REQUEST, "the payload has %llu bytes, not %llu",
                          (unsigned long long)there, (unsigned long long)size);
        } else if (whole) {
            if (size)
                memcpy(target, small.bytes.at, size);
            explicit_bzero(c->in, sizeof c->in);
        } else if (!failed) {
            advise_huge(target, size);
            failed = drain(s->client, c, target, size, e);
        }
        c->usable = c->usable && (!failed || whole || p.kind != READING);
        give_back(s->client, place);
    }
    if (!failed)
        return 0;
    if (target && size)
        explicit_bzero(target, size); /* a part of it isn't a payload */
    return placed(e, "reading", &s->variant.name, payload);
}

int sealcar_map(sealcar_scope *s, const char *payload, const void **address, uint64_t *size,
                sealcar_error *error)
{
    sealcar_error unasked, *e = error ? error : &unasked;
    struct packet p;
    void *at = NULL;
    *address = NULL;
    *size = 0;
    int place = lease(s->client, e), failed = place < 0;
    if (!failed) {
        struct connection *c = s->client->place[place].connection;
        struct out o = {c->out, 0, 0};
        put_read(&o, SEGMENT, s, payload);
        if (!c->segments)
            failed = fail(e, SEALCAR_INCOMPATIBLE, "this daemon shares no payloads: update it");
        else
            failed = request(c, &o, OR(A_SEGMENT) | OR(FILLING), s->client->timeout, &p, e);
        while (!failed && p.kind == FILLING)
            failed = answer(c, OR(A_SEGMENT) | OR(FILLING), s->client->timeout, &p, e);
        if (!failed && p.fd < 0)
            failed = out_of_turn(c, e);
        if (!failed) {
            *size = number_of(p.body, 1);
            at = map_sealed(p.fd, *size, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE, PROT_READ);
            close(p.fd);
            struct out received = {c->out, 0, 0};
            close_message(&received, open_message(&received, SEGMENT_RECEIVED));
            failed = at ? send_packet(c, &received, e)
                        : broken(c, e, SEALCAR_UNAVAILABLE,
                                 "the daemon's segment is empty, or can still be changed");
        }
        give_back(s->client, place);
    }
    if (!failed) {
        *address = at;
        return 0;
    }
    sealcar_unmap(at, *size);
    *size = 0;
    return placed(e, "mapping", &s->variant.name, payload);
}

void sealcar_unmap(const void *address, uint64_t size)
{
    if (address)
        munmap((void *)address, size);
}

/* ---- writing --------------------------------------------------------------------------------- */
static void free_transaction(sealcar_transaction *t)
{
    if (t->connection && t->process != getpid()) /* the parent's: its rings didn't come along */
        t->connection->ring[0].at = t->connection->ring[1].at = NULL;
    if (t->connection)
        hang_up(t->connection);
    free_name(&t->name);
    free(t);
}

static int begin_on(sealcar_transaction *t, const struct sealcar_name *name, sealcar_error *e)
{
    struct connection *c = t->connection;
    struct packet p;
    struct out o = {c->out, 0, 0};
    size_t begin = open_message(&o, BEGIN);
    put_scope(&o, 1, name);
    close_message(&o, begin);
    if (request(c, &o, OR(BEGUN), t->client->timeout, &p, e))
        return -1;
    struct bytes id = bytes_of(p.body, 1);
    t->id_size = size_of(id);
    if (!t->id_size || t->id_size > sizeof t->id || !take_name(bytes_of(p.body, 2), &t->name))
        return out_of_turn(c, e);
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
    if (!t->connection || begin_on(t, name, e)) {
        free_transaction(t);
        return placed(e, "beginning", name, "");
    }
    *made = t;
    return 0;
}

static int put_piece(struct connection *c, uint32_t slot, uint64_t at, uint64_t size, int last,
                     sealcar_error *e)
{
    struct out o = {c->out, 0, 0};
    size_t piece = open_message(&o, PIECE);
    put_number(&o, 1, slot);
    put_number(&o, 2, at);
    put_number(&o, 3, size);
    put_number(&o, 4, (uint64_t)last);
    close_message(&o, piece);
    return send_packet(c, &o, e);
}

/* Wait for a slot that may be filled again. */
static int free_slot(const sealcar_client *client, struct connection *c, uint32_t *free_slots,
                     uint32_t *count, sealcar_error *e)
{
    struct packet p;
    while (!*count) {
        if (answer(c, OR(FREED), client->timeout, &p, e))
            return -1;
        struct field f;
        for (struct bytes in = p.body; next_field(&in, &f) > 0;)
            if (f.number == 1 && f.wire != 1 && f.wire != 5)
                for (uint64_t slot = f.value; f.wire == 0 || varint(&f.bytes, &slot); f.wire = 2) {
                    if (slot >= c->ring[1].slots || *count == c->ring[1].slots)
                        return out_of_turn(c, e);
                    free_slots[(*count)++] = (uint32_t)slot;
                }
    }
    return 0;
}

static int pour(const sealcar_client *client, struct connection *c, struct bytes sizes,
                const uint8_t *data, uint64_t size, sealcar_error *e)
{
    struct ring *r = &c->ring[1];
    uint64_t room = number_of(sizes, 1), later = number_of(sizes, 2), at = 0;
    struct packet p;
    uint32_t count = r->slots;
    if (!r->at || !room || !later || room > r->slot_size || later > r->slot_size)
        return out_of_turn(c, e);
    uint32_t *slots = malloc(count * sizeof *slots);
    int failed = slots ? 0 : fail(e, SEALCAR_EXHAUSTED, "no memory for a list of slots");
    for (uint32_t i = 0; !failed && i < count; i++)
        slots[i] = i;
    for (int last = 0; !failed && !last; room = later) {
        uint64_t some = size - at < room ? size - at : room;
        last = at + some == size;
        failed = free_slot(client, c, slots, &count, e);
        if (failed)
            break;
        uint32_t slot = slots[--count];
        if (some)
            memcpy(r->at + (size_t)slot * r->slot_size, data + at, some);
        failed = put_piece(c, slot, at, some, last, e);
        at += some;
    }
    free(slots);
    do
        failed = failed || answer(c, OR(FREED) | OR(WRITTEN), DISK_PATIENCE_MS, &p, e);
    while (!failed && p.kind == FREED);
    return failed ? -1 : 0;
}

int sealcar_write(sealcar_transaction *t, const char *payload, int kind, const void *data,
                  uint64_t size, sealcar_error *error)
{
    sealcar_error unasked, *e = error ? error : &unasked;
    struct packet p;
    int place = t->process == getpid()
                    ? lease(t->client, e)
                    : fail(e, SEALCAR_WRONG_STATE, "this transaction belongs to the parent process");
    int failed = place < 0;
    if (!failed) {
        struct connection *c = t->client->place[place].connection;
        struct out o = {c->out, 0, 0};
        size_t write = open_message(&o, WRITE);
        put_bytes(&o, 1, t->id, t->id_size);
        put_text(&o, 2, payload);
        put_number(&o, 3, (uint64_t)(kind < 0 ? 0 : kind));
        put_number(&o, 4, size);
        close_message(&o, write);
        failed = request(c, &o, OR(WRITING), t->client->timeout, &p, e);
        if (!failed && (failed = pour(t->client, c, p.body, data, size, e)))
            c->usable = 0; /* pieces may still be under way */
        give_back(t->client, place);
    }
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
    struct packet p;
    struct out o = {c->out, 0, 0};
    size_t commit = open_message(&o, COMMIT);
    put_bytes(&o, 1, t->id, t->id_size);
    put_number(&o, 2, atomic_load(&t->written));
    put_text(&o, 3, ep);
    put_text(&o, 4, device);
    put_text(&o, 5, compatibility);
    put_text(&o, 6, executor_info);
    close_message(&o, commit);
    int failed = t->process == getpid()
                     ? request(c, &o, OR(COMMITTED), DISK_PATIENCE_MS, &p, e)
                     : fail(e, SEALCAR_WRONG_STATE, "this transaction belongs to the parent process");
    if (failed)
        placed(e, "publishing", &t->name, "");
    else if (generation)
        *generation = number_of(bytes_of(p.body, 1), 4);
    free_transaction(t);
    return failed ? -1 : 0;
}

void sealcar_abort(sealcar_transaction *t)
{
    if (!t)
        return;
    if (t->process == getpid()) {
        struct packet p;
        struct out o = {t->connection->out, 0, 0};
        sealcar_error e;
        size_t abort = open_message(&o, ABORT);
        put_bytes(&o, 1, t->id, t->id_size);
        close_message(&o, abort);
        (void)request(t->connection, &o, OR(ABORTED), t->client->timeout, &p, &e);
    }
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
    char full[1024];
    if (buffer)
        *buffer = NULL;
    if (size)
        *size = 0;
    if (!s || !name || !allocator || !buffer || !size)
        return status_of(s ? s->client->api : NULL, ORT_INVALID_ARGUMENT,
                         "the read callback got an empty argument");
    const char *model = "";
    for (size_t i = 0; s->folder && i < s->variant.count; i++)
        if (s->payloads[i].kind == SEALCAR_MODEL)
            model = s->payloads[i].name;
    snprintf(full, sizeof full, "%.*s%s", (int)s->folder, model, name);
    const struct sealcar_payload *blob = sealcar_find(s, full);
    if (!blob || blob->kind != SEALCAR_BLOB || !blob->size || blob->size > machine_memory()) {
        fail(&e, SEALCAR_NOT_FOUND, "the variant has no such blob, or one that nothing can hold");
        placed(&e, "reading", &s->variant.name, name);
        return status_of(s->client->api, ORT_FAIL, e.text);
    }
    void *target = allocator->alloc(allocator, blob->size);
    if (!target)
        return status_of(s->client->api, ORT_FAIL, "no memory for a blob");
    if (sealcar_read(s, full, target, blob->size, &e)) {
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
    const char *generation = secure_getenv("SEALCAR_GENERATION");
    struct sealcar_name name = {secure_getenv("SEALCAR_PACKAGE"), secure_getenv("SEALCAR_VERSION"),
                                secure_getenv("SEALCAR_COMPONENT"), secure_getenv("SEALCAR_VARIANT"),
                                generation ? strtoull(generation, NULL, 10) : 0};
    sealcar_scope *made, *first = atomic_load(&registered_scopes);
    if (!name.package || !name.component || !name.variant) {
        fail(e, SEALCAR_INVALID_REQUEST,
             "set SEALCAR_PACKAGE, SEALCAR_COMPONENT and SEALCAR_VARIANT to what is to be read");
        return NULL;
    }
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
