/* What a daemon could send, taken by the C client: for libFuzzer, or from standard input, where each
 * input comes after its length in four bytes, little-endian.
 *
 * An input is a byte that says what is asked, then packets: their length in two bytes, a byte that
 * names the memory sent along (0: none), and their bytes. */
#include "sealcar.c"
#include <signal.h>

enum { OPENS, READS, WRITES, COMMITS, REQUESTS };
enum { MEMORIES = 6, SIZE = 20000, UNTOUCHED = 0xa5 };

static int memory[MEMORIES];

static void make_memories(void) {
    static const struct {
        off_t size;
        int seals;
    } wanted[MEMORIES] = {
        {8 * 4096, F_SEAL_SHRINK | F_SEAL_GROW}, {4096, F_SEAL_SHRINK | F_SEAL_GROW},
        {64 * 4096, F_SEAL_SHRINK | F_SEAL_GROW}, {8 * 4096, F_SEAL_SHRINK}, {8 * 4096, 0},
        {0, F_SEAL_SHRINK | F_SEAL_GROW},
    };
    for (int i = 0; i < MEMORIES; i++) {
        memory[i] = memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (ftruncate(memory[i], wanted[i].size) ||
            fcntl(memory[i], F_ADD_SEALS, wanted[i].seals))
            abort();
    }
}

static void say(int socket, const uint8_t *data, size_t size, int kind) {
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec io = {(void *)data, size};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1};
    if (kind) {
        m.msg_control = control;
        m.msg_controllen = sizeof control;
        struct cmsghdr *header = CMSG_FIRSTHDR(&m);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &memory[kind % MEMORIES], sizeof(int));
    }
    (void)!sendmsg(socket, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void read_one(struct connection *c) {
    uint8_t *target = malloc(SIZE);
    memset(target, UNTOUCHED, SIZE);
    if (!ask(c, READ, (values){{.text = "b"}}, OR(READING) | OR(RING))) {
        int by_ring = !c->f[2].bytes.at; /* which holds zeros */
        if (!take(c, target, SIZE) && by_ring)
            for (int i = 0; i < SIZE; i++)
                if (target[i] == UNTOUCHED)
                    abort(); /* not all of it came */
    }
    free(target);
}

static void open_one(struct connection *c) {
    sealcar_scope *s = calloc(1, sizeof *s);
    struct sealcar_name name = {"m", "1", "c", "v", 0};
    s->model = "";
    if (!open_on(c, s, &name)) {
        (void)find(s, "b");
        for (size_t i = 0; i < s->variant.count; i++)
            if (strlen(s->variant.payloads[i].name) > PACKET)
                abort();
        if (!s->variant.name.package || !s->variant.name.version || !s->variant.executor_info)
            abort();
    }
    sealcar_close(s);
}

static void write_one(struct connection *c) {
    static const uint8_t data[SIZE];
    values request = {{.text = "t"}, {.text = "b"}, {.number = 3}, {.number = SIZE}};
    if (!ask(c, WRITE, request, OR(WRITING) | OR(WRITE_RING)))
        (void)pour(c, data, SIZE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sealcar_client client = {.timeout = 1};
    sealcar_error e;
    int ends[2];
    if (!memory[0])
        make_memories();
    if (!size || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
        return 0;
    struct connection *c = calloc(1, sizeof *c);
    c->client = &client;
    c->e = &e;
    c->process = getpid();
    c->fd = ends[0];
    c->handed = -1;
    c->usable = 1;
    int asked = data[0] % REQUESTS;
    for (size_t at = 1; at + 3 <= size;) {
        size_t length = data[at] | (size_t)data[at + 1] << 8;
        if (length > size - at - 3)
            length = size - at - 3;
        say(ends[1], data + at + 3, length, data[at + 2]);
        at += 3 + length;
    }
    close(ends[1]); /* what the client sends goes nowhere, and after these packets nothing comes */
    if (asked == OPENS)
        open_one(c);
    else if (asked == READS)
        read_one(c);
    else if (asked == WRITES)
        write_one(c);
    else
        (void)ask(c, COMMIT, (values){{.text = "t"}}, OR(COMMITTED));
    hang_up(c);
    return 0;
}

#ifndef LIBFUZZER
int main(void) {
    static uint8_t input[1 << 20];
    uint8_t length[4];
    while (fread(length, 1, sizeof length, stdin) == sizeof length) {
        size_t size = length[0] | length[1] << 8 | length[2] << 16;
        if (fread(input, 1, size, stdin) != size)
            return 1;
        uint8_t *exact = malloc(size); /* so that a byte beyond is noticed */
        memcpy(exact, input, size);
        LLVMFuzzerTestOneInput(exact, size);
        free(exact);
    }
    return 0;
}
#endif
