/* The C client: the data socket of proto/sealcar/v1/data_socket.proto, spoken by hand. Build it so:
 *
 *   cc -std=c11 -O2 -fPIC -shared -I client/sealcar/native -o libsealcar.so client/c/sealcar.c
 *
 * Whatever the daemon sends is measured before it is used: lengths against the packet, slots
 * against the ring, rings against their descriptor. There are no locks: connections are taken by
 * atomic exchange, so a child of fork finds nothing locked by a thread that it doesn't have. */
#define _GNU_SOURCE
#include "sealcar.h"
#include "abi.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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

enum {
    PACKET = 65536,
    KEPT_CONNECTIONS = 8,
    TICK_MS = 50,              /* how often a wait is looked at */
    DISK_PATIENCE_MS = 600000, /* publishing and syncing wait for the disk */
    HUGE_FROM = 4 << 20,       /* smaller memory has no use for huge pages */
    MAX_SLOTS = 64,            /* a ring has 8, and fewer pieces wait for one before them */
    BUSY = 2,                  /* of so many parts of them one is given back at once */
    MAX_PAYLOADS = 100000,
};

/* fields of ClientPacket, and of DaemonPacket */
enum { ATTEST = 1, OPEN, READ, RING_MAPPED, FREE, BEGIN = 7, WRITE, PIECE, COMMIT, ABORT };
enum {
    ATTESTED = 1, OPENED, RING, WRITE_RING, READING, A_PIECE, DONE, BEGUN, WRITING, FREED, WRITTEN,
    COMMITTED, ABORTED, ERROR
};
#define OR(kind) (1u << (kind))

struct bytes {
    const uint8_t *at, *end;
};

/* A message that came: its fields by number, the last of each; no higher number matters here. The
 * value is 0 unless it is a number, and bytes are none if it is one. */
struct field {
    uint64_t number, value;
    struct bytes bytes;
};
typedef struct field fields[18];

/* A message to be sent: its fields from number 1 on. Zeros are left out. */
struct value {
    uint64_t number;
    const char *text;
    struct bytes bytes;
    const struct value *message;
};
typedef const struct value values[6];

struct ring {
    uint8_t *at; /* NULL: there is none, and both numbers are 0 */
    uint64_t slots, slot_size;
};

struct connection {
    sealcar_client *client;
    sealcar_error *e; /* of the request under way */
    pid_t process;    /* the only one that may speak on it */
    int fd;
    int usable;          /* for another request: 0 in the midst of a transfer too */
    unsigned kind;       /* of the packet that came last; 0: nothing that this release knows */
    fields f;            /* of its message, in `in` */
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
    _Atomic(struct connection *) idle[KEPT_CONNECTIONS];
};

struct sealcar_scope {
    sealcar_client *client;
    struct sealcar_variant variant;
    struct text { /* all that the variant points to */
        struct text *next;
        char at[];
    } *texts;
    int wrong;         /* what the daemon said of it can't be kept */
    const char *model; /* the only one's name; its blobs lie beside it */
    size_t folder;     /* bytes of that name before its last part */
    char place[256];   /* for errors */
};

struct sealcar_transaction {
    sealcar_client *client;
    struct connection *connection; /* its own: the transaction ends with the process's last one */
    char place[256];
    uint8_t id[64];
    size_t id_size;
    unsigned written;
};

/* ---- errors ---------------------------------------------------------------------------------- */
__attribute__((format(printf, 3, 4))) static int fail(sealcar_error *e, int reason,
                                                      const char *format, ...) {
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

/* Say what was being done when it failed. */
static int failed(sealcar_error *e, const char *doing, const char *payload, const char *place) {
    sealcar_error inner = *e;
    fail(e, inner.reason, "%s %.200s%sof %s: %.600s", doing, payload, *payload ? " " : "", place,
         inner.text);
    e->retry_after_ms = inner.retry_after_ms;
    return -1;
}

static const char *or_empty(const char *text) {
    return text ? text : "";
}

static void note_place(char place[256], const struct sealcar_name *name) {
    snprintf(place, 256, "%.80s/%.80s/%.80s", or_empty(name->package), or_empty(name->component),
             or_empty(name->variant));
}

/* The connection is of no use any more. */
static int broken(struct connection *c, int reason, const char *why) {
    c->usable = 0;
    shutdown(c->fd, SHUT_RDWR); /* the daemon frees what it holds for us now */
    return fail(c->e, reason, "%s", why);
}

static int out_of_turn(struct connection *c) {
    return broken(c, SEALCAR_UNAVAILABLE, "the daemon answered out of turn");
}

/* ---- protobuf -------------------------------------------------------------------------------- */
static size_t size_of(struct bytes b) {
    return (size_t)(b.end - b.at);
}

static int varint(struct bytes *in, uint64_t *value) {
    *value = 0;
    for (int shift = 0; shift < 64 && in->at < in->end; shift += 7) {
        *value |= (uint64_t)(*in->at & 0x7f) << shift;
        if (*in->at++ < 0x80)
            return 1;
    }
    return 0;
}

/* 1: the next field; 0: the end; -1: no protobuf */
static int next_field(struct bytes *in, struct field *f) {
    uint64_t tag, size;
    *f = (struct field){0};
    if (in->at == in->end)
        return 0;
    if (!varint(in, &tag) || tag >> 3 == 0)
        return -1;
    unsigned wire = tag & 7;
    f->number = tag >> 3;
    if (wire == 0)
        return varint(in, &f->value) ? 1 : -1;
    size = wire == 1 ? 8 : 4;
    if ((wire != 1 && wire != 2 && wire != 5) || (wire == 2 && !varint(in, &size)) ||
        size > size_of(*in))
        return -1;
    f->bytes = (struct bytes){in->at, in->at + size};
    in->at += size;
    return 1;
}

/* Whether bytes are a message. */
static int parse(struct bytes in, fields f) {
    struct field next;
    int more;
    memset(f, 0, sizeof(fields));
    while ((more = next_field(&in, &next)) > 0)
        if (next.number < sizeof(fields) / sizeof next)
            f[next.number] = next;
    return more == 0;
}

static void put(struct connection *c, const void *data, size_t size) {
    if (size > PACKET - c->size) {
        c->unsendable = SEALCAR_INVALID_REQUEST;
    } else if (size) {
        memcpy(c->out + c->size, data, size);
        c->size += size;
    }
}

static void put_varint(struct connection *c, uint64_t value) {
    for (; value > 0x7f; value >>= 7)
        put(c, &(uint8_t){(uint8_t)value | 0x80}, 1);
    put(c, &(uint8_t){(uint8_t)value}, 1);
}

/* Texts of protobuf are UTF-8: the daemon would hang up on anything else. */
static int is_utf8(const uint8_t *s) {
    while (*s) {
        unsigned first = *s++, two = first << 8 | *s;
        int more = first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
        /* no letter begins so; the second byte tells longer forms than needed, and surrogates */
        if ((more && first < 0xc2) || first > 0xf4 || (two >> 5 == 0xe080 >> 5) ||
            (two >> 5 == 0xeda0 >> 5) || (two >> 4 == 0xf080 >> 4) || (two > 0xf48f && more))
            return 0;
        while (more--)
            if ((*s++ & 0xc0) != 0x80)
                return 0;
    }
    return 1;
}

static void put_message(struct connection *c, unsigned number, const struct value *v) {
    put_varint(c, number << 3 | 2);
    put(c, "\0\0", 3); /* its length, filled in below: a varint may have bytes to spare */
    size_t start = c->size;
    for (unsigned i = 1; i <= sizeof(values) / sizeof *v; i++, v++) {
        struct bytes b = v->bytes;
        if (v->text) {
            b.at = (const uint8_t *)v->text;
            b.end = b.at + strlen(v->text);
            if (!is_utf8(b.at))
                c->unsendable = SEALCAR_INVALID_NAME;
        }
        if (v->message) {
            put_message(c, i, v->message);
        } else if (size_of(b)) {
            put_varint(c, i << 3 | 2);
            put_varint(c, size_of(b));
            put(c, b.at, size_of(b));
        } else if (v->number) {
            put_varint(c, i << 3);
            put_varint(c, v->number);
        }
    }
    size_t size = c->size - start;
    c->out[start - 3] = (uint8_t)size | 0x80;
    c->out[start - 2] = (uint8_t)(size >> 7) | 0x80;
    c->out[start - 1] = (uint8_t)(size >> 14);
}

#define SCOPE(n)                                                                                   \
    {.message = (values){{.message = (values){{.text = (n)->package}, {.text = (n)->version}}},    \
                         {.text = (n)->component}, {.text = (n)->variant},                         \
                         {.number = (n)->generation}}}
#define ID(t) {.bytes = {(t)->id, (t)->id + (t)->id_size}}

/* ---- packets --------------------------------------------------------------------------------- */
static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int send_packet(struct connection *c, unsigned kind, const struct value *v) {
    int64_t deadline = now_ms() + c->client->timeout;
    c->size = 0;
    c->unsendable = 0;
    put_message(c, kind, v);
    if (c->process != getpid())
        return fail(c->e, SEALCAR_WRONG_STATE, "this transaction belongs to the parent process");
    if (c->unsendable)
        return fail(c->e, c->unsendable, "a text of this request isn't UTF-8, or it is too long");
    while (send(c->fd, c->out, c->size, MSG_NOSIGNAL) < 0 && (errno == EINTR || errno == EAGAIN))
        if (now_ms() >= deadline)
            return broken(c, SEALCAR_TIMED_OUT, "the daemon didn't take a packet in time");
    return 0; /* also if the daemon is gone: it may have said why, and that comes next */
}

static int receive(struct connection *c, int patience) {
    /* room for one descriptor and not a byte more: the padding would take a second one */
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    struct iovec io = {c->in, sizeof c->in};
    struct msghdr m;
    int64_t deadline = now_ms() + patience;
    ssize_t size;
    int resets = 0, later;
    if (c->handed >= 0)
        close(c->handed);
    c->handed = -1;
    do {
        m = (struct msghdr){.msg_iov = &io, .msg_iovlen = 1, .msg_control = control,
                            .msg_controllen = CMSG_LEN(sizeof(int))};
        size = recvmsg(c->fd, &m, MSG_CMSG_CLOEXEC);
        later = size < 0 && (errno == EINTR || errno == EAGAIN);
        /* a reset comes once, and before the packets that the daemon sent before it closed */
    } while (later ? now_ms() < deadline : size < 0 && errno == ECONNRESET && !resets++);
    if (later)
        return broken(c, SEALCAR_TIMED_OUT, "the daemon was silent for too long");
    if (size <= 0)
        return broken(c, SEALCAR_UNAVAILABLE, "the daemon closed the connection");
    struct cmsghdr *header = CMSG_FIRSTHDR(&m);
    if (header && header->cmsg_type == SCM_RIGHTS)
        memcpy(&c->handed, CMSG_DATA(header), sizeof c->handed);
    if (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
        return broken(c, SEALCAR_UNAVAILABLE, "a packet over the data socket's limits came in");
    fields message;
    int whole = parse((struct bytes){c->in, c->in + size}, message);
    c->kind = 0;
    for (unsigned i = ATTESTED; whole && i <= ERROR; i++)
        if (message[i].bytes.at && parse(message[i].bytes, c->f))
            c->kind = i;
    return 0;
}

static int refused(struct connection *c) {
    struct bytes text = c->f[2].bytes, id = c->f[9].bytes;
    int reason = (int)(c->f[1].value & 0xff), size = (int)size_of(text), id_size = (int)size_of(id);
    fail(c->e, reason ? reason : SEALCAR_UNAVAILABLE, "%.*s%s%.*s%s", size < 500 ? size : 500,
         or_empty((const char *)text.at), id_size ? " (request " : "", id_size < 64 ? id_size : 64,
         or_empty((const char *)id.at), id_size ? ")" : "");
    c->e->retry_after_ms = c->f[8].value;
    return -1;
}

static void unmap_ring(struct ring *r) {
    if (r->at)
        munmap(r->at, r->slots * r->slot_size);
    *r = (struct ring){0};
}

/* Memory that somebody could still shrink is never mapped: touching it could raise SIGBUS. */
static int map_ring(struct connection *c, struct ring *r, int access) {
    uint64_t slots = c->f[1].value, slot_size = c->f[2].value, size = slots * slot_size;
    int seals = fcntl(c->handed, F_GET_SEALS), fixed = F_SEAL_SHRINK | F_SEAL_GROW;
    struct stat found;
    uint8_t *at = MAP_FAILED;
    unmap_ring(r);
    if (slots <= MAX_SLOTS && slot_size <= UINT32_MAX && seals >= 0 && (seals & fixed) == fixed &&
        fstat(c->handed, &found) == 0 && (uint64_t)found.st_size == size)
        at = mmap(NULL, size, access, MAP_SHARED, c->handed, 0);
    if (at == MAP_FAILED)
        return broken(c, SEALCAR_UNAVAILABLE, "the ring has another size, or can still change it");
    *r = (struct ring){at, slots, slot_size};
    /* a child of fork has no use for it, and the daemon counts it as long as it is mapped */
    madvise(at, size, MADV_DONTFORK);
    madvise(at, size, MADV_DONTDUMP);
    return send_packet(c, RING_MAPPED, (values){0});
}

/* The next packet of a wanted kind; a ring that is wanted before it is mapped and acknowledged. In
 * the midst of a transfer none is: slots of the old one are still in use. */
static int answer(struct connection *c, unsigned wanted, int patience) {
    for (;;) {
        if (receive(c, patience))
            return -1;
        int is_ring = c->kind == RING || c->kind == WRITE_RING;
        if (!(OR(c->kind) & (wanted | OR(ERROR))) || (c->handed >= 0) != is_ring)
            return out_of_turn(c);
        if (c->kind == ERROR)
            return refused(c);
        if (!is_ring)
            return 0;
        if (c->kind == RING ? map_ring(c, &c->ring[0], PROT_READ)
                            : map_ring(c, &c->ring[1], PROT_READ | PROT_WRITE))
            return -1;
    }
}

static int ask(struct connection *c, unsigned kind, const struct value *v, unsigned wanted) {
    return send_packet(c, kind, v) || answer(c, wanted, c->client->timeout) ? -1 : 0;
}

/* ---- connections ----------------------------------------------------------------------------- */
/* Whose a directory is, as long as it and all above it belong to root, us or that owner, and nobody
 * else can write to them; -1: who knows. Whoever made a link could have made it lead anywhere. */
static int64_t owner_of(const char *directory) {
    char path[PATH_MAX];
    struct stat found;
    int64_t owner = -1;
    if (!realpath(directory, path) || strcmp(path, directory) != 0)
        return -1;
    for (char *end = path + strlen(path); end; end = strrchr(path, '/')) {
        *end = 0;
        if (lstat(*path ? path : "/", &found) || found.st_mode & (S_IWGRP | S_IWOTH))
            return -1;
        owner = owner < 0 ? found.st_uid : owner;
        if (found.st_uid && found.st_uid != geteuid() && found.st_uid != owner)
            return -1;
    }
    return owner;
}

/* Connect to the right daemon and attest. */
static int dial(struct connection *c) {
    const char *directory = c->client->directory;
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    struct timeval tick = {0, TICK_MS * 1000};
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t size = sizeof peer;
    int64_t told = c->client->peer;
    snprintf(to.sun_path, sizeof to.sun_path, "%.97s/data.sock", directory);
    c->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &tick, sizeof tick) ||
        setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &tick, sizeof tick))
        return fail(c->e, SEALCAR_EXHAUSTED, "no socket: %s", strerror(errno));
    if (connect(c->fd, (struct sockaddr *)&to, sizeof to))
        return fail(c->e, errno == EACCES ? SEALCAR_DENIED : SEALCAR_UNAVAILABLE,
                    "no daemon at %s: %s", directory, strerror(errno));
    getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
    if (told >= 0 && peer.uid != told)
        return fail(c->e, SEALCAR_DENIED, "uid %u listens at %s, but the daemon must have uid %lld",
                    peer.uid, directory, (long long)told);
    if (told < 0 && peer.uid && peer.uid != geteuid() && peer.uid != owner_of(directory))
        return fail(c->e, SEALCAR_DENIED,
                    "uid %u listens at %s, where others could as well: if that is the daemon's, "
                    "give it as peer_uid or $SEALCAR_PEER_UID", peer.uid, directory);
    if (ask(c, ATTEST, (values){{.number = 1}, {.text = "sealcar-c 0.1.0"}}, OR(ATTESTED)))
        return -1;
    c->usable = c->f[1].value == 1;
    return c->usable ? 0 : fail(c->e, SEALCAR_INCOMPATIBLE, "the daemon speaks another protocol");
}

static void hang_up(struct connection *c) {
    if (!c)
        return;
    if (c->process == getpid()) { /* else its rings didn't come along, and the parent goes on */
        unmap_ring(&c->ring[0]); /* first: the daemon counts rings for as long as they are mapped */
        unmap_ring(&c->ring[1]);
        shutdown(c->fd, SHUT_RDWR); /* a child may have it too */
    }
    if (c->handed >= 0)
        close(c->handed);
    if (c->fd >= 0)
        close(c->fd);
    free(c);
}

/* A new connection, once there is a daemon; NULL: there is none. */
static struct connection *call(sealcar_client *client, sealcar_error *e) {
    for (int64_t deadline = now_ms() + client->timeout - TICK_MS;;) {
        struct connection *c = calloc(1, sizeof *c);
        if (!c) {
            fail(e, SEALCAR_EXHAUSTED, "no memory for a connection");
            return NULL;
        }
        c->client = client;
        c->e = e;
        c->process = getpid();
        c->fd = c->handed = -1;
        if (!dial(c))
            return c;
        hang_up(c);
        if (e->reason != SEALCAR_UNAVAILABLE || now_ms() >= deadline)
            return NULL;
        nanosleep(&(struct timespec){0, TICK_MS * 1000000L}, NULL);
    }
}

/* A connection for one request, to be given back. */
static struct connection *lease(sealcar_client *client, sealcar_error *e) {
    for (int i = 0; i < KEPT_CONNECTIONS; i++) {
        struct connection *c = atomic_exchange(&client->idle[i], NULL);
        /* a parent's is of no use, and what comes unasked is the daemon's farewell */
        if (c && c->process == getpid() && recv(c->fd, c->in, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
            errno == EAGAIN) {
            c->e = e;
            return c;
        }
        hang_up(c);
    }
    return call(client, e);
}

static void give_back(struct connection *c) {
    for (int i = 0; c && c->usable && i < KEPT_CONNECTIONS; i++) {
        struct connection *none = NULL;
        if (atomic_compare_exchange_strong(&c->client->idle[i], &none, c))
            return;
    }
    hang_up(c);
}

/* The number that a variable of the environment gives; left as it is if that isn't set. */
static int take_variable(const char *variable, int64_t *number, sealcar_error *e) {
    const char *text = or_empty(secure_getenv(variable));
    if (text[strspn(text, "0123456789")] || strlen(text) > 18)
        return fail(e, SEALCAR_INVALID_REQUEST, "$%s must be a number in decimal digits", variable);
    if (*text)
        *number = strtoll(text, NULL, 10);
    return 0;
}

int sealcar_connect(const char *directory, int64_t peer_uid, int timeout_ms, const OrtApiBase *ort,
                    sealcar_client **made, sealcar_error *e) {
    const struct api_base *base = (const struct api_base *)ort;
    sealcar_client *client = *made = calloc(1, sizeof *client);
    if (!client)
        return fail(e, SEALCAR_EXHAUSTED, "no memory for a client");
    client->peer = peer_uid;
    client->timeout = timeout_ms > 0 ? timeout_ms : 30000;
    client->api = base ? main_table(base) : NULL;
    client->minor = base ? minor_version(base) : 0;
    if (!*or_empty(directory))
        directory = secure_getenv("SEALCAR_SOCKET");
    int size = snprintf(client->directory, sizeof client->directory, "%s",
                        *or_empty(directory) ? directory : "/run/sealcar/default");
    struct connection *c = NULL;
    if (size < 0 || (size_t)size + sizeof "/data.sock" > sizeof client->directory)
        fail(e, SEALCAR_INVALID_REQUEST, "the data socket's path is longer than one can be");
    else if (base && !client->api)
        fail(e, SEALCAR_INCOMPATIBLE,
             "ONNX Runtime 1.28 or later is needed, with all functions of its version");
    else if (peer_uid >= 0 || !take_variable("SEALCAR_PEER_UID", &client->peer, e))
        c = lease(client, e);
    give_back(c);
    if (c)
        return 0;
    free(client);
    *made = NULL;
    return -1;
}

void sealcar_disconnect(sealcar_client *client) {
    for (int i = 0; client && i < KEPT_CONNECTIONS; i++)
        hang_up(atomic_exchange(&client->idle[i], NULL));
    free(client);
}

/* ---- opening --------------------------------------------------------------------------------- */
/* A copy of a text of the daemon's, as long as the scope. C can't have one with a zero in it. */
static const char *keep(sealcar_scope *s, struct bytes b) {
    size_t size = size_of(b);
    struct text *t = size && memchr(b.at, 0, size) ? NULL : calloc(1, sizeof *t + size + 1);
    s->wrong |= !t;
    if (!t)
        return "";
    if (size)
        memcpy(t->at, b.at, size);
    t->next = s->texts;
    s->texts = t;
    return t->at;
}

/* Take the variant of an answer, or some more of its payloads. */
static void take_page(sealcar_scope *s, const struct field *page) {
    struct sealcar_variant *v = &s->variant;
    struct bytes info = page[2].bytes;
    fields scope, package, f;
    struct field next;
    s->wrong = !parse(page[1].bytes, scope) || !parse(scope[1].bytes, package) || !parse(info, f);
    if (!s->wrong && !v->ep) {
        v->name = (struct sealcar_name){keep(s, package[1].bytes), keep(s, package[2].bytes),
                                        keep(s, scope[2].bytes), keep(s, scope[3].bytes),
                                        scope[4].value};
        v->ep = keep(s, f[3].bytes);
        v->device = keep(s, f[4].bytes);
        v->compatibility = keep(s, f[5].bytes);
        v->executor_info = keep(s, f[6].bytes);
    }
    while (!s->wrong && next_field(&info, &next) > 0) {
        if (next.number != 7)
            continue;
        struct sealcar_payload *p = realloc((void *)v->payloads, (v->count + 1) * sizeof *p);
        s->wrong = !p || v->count == MAX_PAYLOADS || !parse(next.bytes, f);
        if (!p)
            return;
        p[v->count++] = (struct sealcar_payload){keep(s, f[1].bytes), f[3].value, (int)f[2].value};
        v->payloads = p;
    }
}

static int open_on(struct connection *c, sealcar_scope *s, const struct sealcar_name *name) {
    struct bytes token = {NULL, NULL};
    int models = 0;
    do {
        size_t before = s->variant.count;
        if (ask(c, OPEN, (values){SCOPE(name), {.bytes = token}}, OR(OPENED)))
            return -1;
        token = c->f[3].bytes;
        take_page(s, c->f);
        if (s->wrong || (size_of(token) && s->variant.count == before))
            return fail(c->e, SEALCAR_INCOMPATIBLE, "the daemon's list of payloads can't be kept");
        name = &s->variant.name; /* of that very state */
    } while (size_of(token));
    for (size_t i = 0; i < s->variant.count; i++)
        if (s->variant.payloads[i].kind == SEALCAR_MODEL && ++models)
            s->model = s->variant.payloads[i].name;
    const char *slash = models == 1 ? strrchr(s->model, '/') : NULL;
    s->folder = slash ? (size_t)(slash + 1 - s->model) : 0;
    return 0;
}

int sealcar_open(sealcar_client *client, const struct sealcar_name *name, sealcar_scope **made,
                 sealcar_error *e) {
    sealcar_scope *s = *made = calloc(1, sizeof *s);
    if (!s)
        return fail(e, SEALCAR_EXHAUSTED, "no memory for a scope");
    s->client = client;
    s->model = "";
    note_place(s->place, name);
    struct connection *c = lease(client, e);
    int wrong = !c || open_on(c, s, name);
    give_back(c);
    if (!wrong)
        return 0;
    failed(e, "opening", "", s->place);
    sealcar_close(s);
    *made = NULL;
    return -1;
}

const struct sealcar_variant *sealcar_variant_of(const sealcar_scope *scope) {
    return &scope->variant;
}

/* The payload of a name, which is relative to the model's folder. */
static const struct sealcar_payload *find(const sealcar_scope *s, const char *name) {
    for (size_t i = 0; i < s->variant.count; i++) {
        const struct sealcar_payload *p = &s->variant.payloads[i];
        if (strncmp(p->name, s->model, s->folder) == 0 && strcmp(p->name + s->folder, name) == 0)
            return p;
    }
    return NULL;
}

void sealcar_close(sealcar_scope *s) {
    for (struct text *next; s && s->texts; s->texts = next) {
        next = s->texts->next;
        free(s->texts);
    }
    if (s)
        free((void *)s->variant.payloads);
    free(s);
}

/* ---- reading and writing --------------------------------------------------------------------- */
/* What of a payload has come: all below `low`, and pieces that wait for one before them. */
struct arrived {
    uint64_t low, from[MAX_SLOTS], to[MAX_SLOTS];
    int count;
};

static void add_piece(struct arrived *a, uint64_t from, uint64_t to) {
    for (int i = a->count; i-- > 0;)
        if (a->to[i] == from || a->from[i] == to) { /* one with its neighbour */
            *(a->to[i] == from ? &from : &to) = a->to[i] == from ? a->from[i] : a->to[i];
            a->from[i] = a->from[--a->count], a->to[i] = a->to[a->count];
        }
    if (from == a->low)
        a->low = to;
    else
        a->from[a->count] = from, a->to[a->count++] = to;
}

/* Take a payload of exactly that size, once its transfer has begun. */
static int take(struct connection *c, uint8_t *target, uint64_t size) {
    struct arrived all = {0};
    uint8_t freed[MAX_SLOTS];
    size_t count = 0;
    struct bytes whole = c->f[2].bytes;
    uint64_t there = whole.at ? size_of(whole) : c->f[1].value;
    c->usable = whole.at != NULL; /* else not before the end */
    if (there != size)
        return fail(c->e, SEALCAR_INVALID_REQUEST, "the payload has %llu bytes, not %llu",
                    (unsigned long long)there, (unsigned long long)size);
    if (whole.at && size)
        memcpy(target, whole.at, size);
    if (whole.at)
        return 0;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), skipped = -(uintptr_t)target % page;
    if (size >= HUGE_FROM) /* every page is zeroed when it is first touched: huge ones, once */
        madvise(target + skipped, size - skipped, MADV_HUGEPAGE);
    for (;;) {
        if (answer(c, OR(A_PIECE) | OR(DONE), c->client->timeout))
            return -1;
        if (c->kind == DONE)
            break;
        uint64_t slot = c->f[1].value, at = c->f[2].value, some = c->f[3].value;
        struct ring *r = &c->ring[0];
        if (slot >= r->slots || !some || some > r->slot_size || some > size || at > size - some ||
            all.count == MAX_SLOTS)
            return broken(c, SEALCAR_UNAVAILABLE, "bytes outside the payload or the ring came");
        memcpy(target + at, r->at + slot * r->slot_size, some);
        add_piece(&all, at, at + some);
        freed[count++] = (uint8_t)slot;
        if (BUSY * count < r->slots && all.low != size)
            continue; /* the daemon has others to fill, and each packet wakes it up */
        if (send_packet(c, FREE, (values){{.bytes = {freed, freed + count}}}))
            return -1;
        count = 0;
    }
    if (c->f[1].value != size || all.low != size || all.count)
        return broken(c, SEALCAR_TRUNCATED, "the daemon ended before every byte had come");
    c->usable = 1;
    return 0;
}

int sealcar_read(sealcar_scope *s, const char *payload, void *target, uint64_t size,
                 sealcar_error *e) {
    values request = {SCOPE(&s->variant.name), {.text = payload}};
    struct connection *c = lease(s->client, e);
    int wrong = !c || ask(c, READ, request, OR(READING) | OR(RING)) || take(c, target, size);
    if (c)
        explicit_bzero(c->in, sizeof c->in); /* a small payload came through it */
    give_back(c);
    if (!wrong)
        return 0;
    if (size)
        explicit_bzero(target, size); /* a part of it isn't a payload */
    return failed(e, "reading", or_empty(payload), s->place);
}

int sealcar_begin(sealcar_client *client, const struct sealcar_name *name,
                  sealcar_transaction **made, sealcar_error *e) {
    sealcar_transaction *t = *made = calloc(1, sizeof *t);
    if (!t)
        return fail(e, SEALCAR_EXHAUSTED, "no memory for a transaction");
    note_place(t->place, name);
    t->client = client;
    struct connection *c = t->connection = call(client, e);
    if (c && !ask(c, BEGIN, (values){SCOPE(name)}, OR(BEGUN))) {
        size_t size = size_of(c->f[1].bytes);
        if (size && size <= sizeof t->id) {
            memcpy(t->id, c->f[1].bytes.at, t->id_size = size);
            return 0;
        }
        out_of_turn(c);
    }
    failed(e, "beginning", "", t->place);
    *made = NULL;
    sealcar_abort(t);
    return -1;
}

/* Fill slots of the write ring as they are free, each of which is a bit. */
static int pour(struct connection *c, const uint8_t *data, uint64_t size) {
    struct ring *r = &c->ring[1];
    c->usable = 0; /* before the end */
    uint64_t room = c->f[1].value, later = c->f[2].value, at = 0;
    if (!room || !later || room > r->slot_size || later > r->slot_size)
        return out_of_turn(c);
    uint64_t unused = UINT64_MAX >> (MAX_SLOTS - r->slots);
    do {
        while (!unused) {
            if (answer(c, OR(FREED), c->client->timeout))
                return -1;
            struct bytes freed = c->f[1].bytes;
            for (uint64_t slot; varint(&freed, &slot); unused |= UINT64_C(1) << slot)
                if (slot >= r->slots)
                    return out_of_turn(c);
        }
        unsigned slot = (unsigned)__builtin_ctzll(unused);
        uint64_t some = size - at < room ? size - at : room;
        unused &= unused - 1;
        if (some)
            memcpy(r->at + slot * r->slot_size, data + at, some);
        int last = at + some == size;
        values piece = {{.number = slot}, {.number = at}, {.number = some}, {.number = last}};
        if (send_packet(c, PIECE, piece))
            return -1;
        at += some;
        room = later;
    } while (at < size);
    do
        if (answer(c, OR(FREED) | OR(WRITTEN), DISK_PATIENCE_MS))
            return -1;
    while (c->kind == FREED);
    c->usable = 1;
    return 0;
}

int sealcar_write(sealcar_transaction *t, const char *payload, int kind, const void *data,
                  uint64_t size, sealcar_error *e) {
    values request = {ID(t), {.text = payload}, {.number = (unsigned)kind}, {.number = size}};
    struct connection *c = t->connection;
    c->e = e;
    if (ask(c, WRITE, request, OR(WRITING) | OR(WRITE_RING)) || pour(c, data, size))
        return failed(e, "writing", or_empty(payload), t->place);
    t->written++;
    return 0;
}

int sealcar_commit(sealcar_transaction *t, const char *ep, const char *device,
                   const char *compatibility, const char *executor_info, uint64_t *generation,
                   sealcar_error *e) {
    values request = {ID(t), {.number = t->written}, {.text = ep}, {.text = device},
                      {.text = compatibility}, {.text = executor_info}};
    struct connection *c = t->connection;
    fields scope;
    c->e = e;
    int wrong = send_packet(c, COMMIT, request) || answer(c, OR(COMMITTED), DISK_PATIENCE_MS);
    if (wrong)
        failed(e, "publishing", "", t->place);
    else if (generation)
        *generation = parse(c->f[1].bytes, scope) ? scope[4].value : 0;
    t->id_size = 0; /* nothing is left to abort */
    sealcar_abort(t);
    return wrong ? -1 : 0;
}

void sealcar_abort(sealcar_transaction *t) {
    sealcar_error unasked;
    int ours = t && t->id_size && t->connection->process == getpid();
    struct connection *c = ours ? lease(t->client, &unasked) : NULL;
    if (c)
        (void)ask(c, ABORT, (values){ID(t)}, OR(ABORTED));
    give_back(c);
    if (t)
        hang_up(t->connection);
    free(t);
}

/* ---- ONNX Runtime ---------------------------------------------------------------------------- */
OrtStatus *sealcar_read_named_buffer(void *state, const char *name, OrtAllocator *allocator,
                                     void **buffer, size_t *size) {
    sealcar_scope *s = state;
    sealcar_error e;
    if (!read_arguments(name, allocator, buffer, size))
        return new_status(s->client->api, ORT_INVALID_ARGUMENT, "the read callback got too little");
    const struct sealcar_payload *blob = find(s, name);
    void *target = blob ? allocate_buffer(allocator, blob->size) : NULL;
    if (!blob || blob->kind != SEALCAR_BLOB)
        fail(&e, SEALCAR_NOT_FOUND, "reading %.200s of %s: there is no such blob", name, s->place);
    else if (!target)
        fail(&e, SEALCAR_EXHAUSTED, "reading %.200s of %s: no memory for it", name, s->place);
    else if (!sealcar_read(s, blob->name, target, blob->size, &e)) {
        *buffer = target;
        *size = blob->size;
        return NULL;
    }
    if (target)
        allocator->free(allocator, target);
    return new_status(s->client->api, ORT_FAIL, e.text);
}

OrtStatus *sealcar_write_named_buffer(void *state, const char *name, const void *data, size_t n) {
    sealcar_transaction *t = state;
    sealcar_error e;
    if (!name || (!data && n))
        return new_status(t->client->api, ORT_INVALID_ARGUMENT,
                          "the write callback got no name or no data");
    int wrong = sealcar_write(t, name, SEALCAR_BLOB, data, n, &e);
    return wrong ? new_status(t->client->api, ORT_FAIL, e.text) : NULL;
}

OrtStatus *sealcar_set_read(sealcar_scope *s, OrtSessionOptions *options) {
    return set_read(s->client->api, s->client->minor, options, sealcar_read_named_buffer, s);
}

OrtStatus *sealcar_set_write(sealcar_transaction *t, OrtModelCompilationOptions *options) {
    return set_write(t->client->api, t->client->minor, options, sealcar_write_named_buffer, t);
}

static sealcar_client *shared_client(const OrtApiBase *ort, sealcar_error *e) {
    static _Atomic(sealcar_client *) shared;
    sealcar_client *there = atomic_load(&shared), *made;
    if (there || sealcar_connect(NULL, -1, 0, ort, &made, e))
        return there;
    if (atomic_compare_exchange_strong(&shared, &there, made))
        return made;
    sealcar_disconnect(made); /* another thread was first */
    return there;
}

OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *ort) {
    struct sealcar_name name = {
        secure_getenv("SEALCAR_PACKAGE"), secure_getenv("SEALCAR_VERSION"),
        secure_getenv("SEALCAR_COMPONENT"), secure_getenv("SEALCAR_VARIANT"), 0};
    int64_t generation = 0;
    sealcar_error e;
    sealcar_client *client = shared_client(ort, &e);
    sealcar_scope *scope;
    if (client && !(name.package && name.component && name.variant))
        fail(&e, SEALCAR_INVALID_REQUEST,
             "set SEALCAR_PACKAGE, SEALCAR_COMPONENT and SEALCAR_VARIANT to what is to be read");
    else if (client && !take_variable("SEALCAR_GENERATION", &generation, &e)) {
        name.generation = (uint64_t)generation;
        if (!sealcar_open(client, &name, &scope, &e))
            return sealcar_set_read(scope, options);
    }
    /* the oldest table has this function where the newest has it */
    return new_status(((const struct api_base *)ort)->get_api(1), ORT_FAIL, e.text);
}
