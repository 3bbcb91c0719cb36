/* Stands in for a node that fetches a package from a bucket: the same ranges over as many
 * connections as a daemon has, but what comes is dropped, neither kept nor decrypted.
 *
 *   scale_node ADDRESS PORT CONNECTIONS RANGE PATH SIZE [PATH SIZE]...
 *
 * Plain HTTP, no key: anybody may read there. Says "ready" once all connections stand; then for one
 * line one of JSON: when it began and ended (seconds of CLOCK_MONOTONIC), the bytes, and the
 * requests. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST_CONNECTIONS = 64 };

static char **objects; /* path and size in turns */
static int count;
static unsigned long long range;
static const char *host;
static struct sockaddr_in server = {.sin_family = AF_INET};
static int sockets[MOST_CONNECTIONS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int object;
static unsigned long long at, bytes, requests;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* The next range that nobody has; 0: none is left. */
static int take(const char **path, unsigned long long *from, unsigned long long *size)
{
    int found = 0;
    pthread_mutex_lock(&lock);
    while (object < count && at >= strtoull(objects[2 * object + 1], NULL, 10)) {
        object++;
        at = 0;
    }
    if (object < count) {
        unsigned long long left = strtoull(objects[2 * object + 1], NULL, 10) - at;
        *path = objects[2 * object];
        *from = at;
        *size = left < range ? left : range;
        at += *size;
        bytes += *size;
        requests++;
        found = 1;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

/* Read a header, whole; what of the body came with it is counted in `body`. */
static void header(int s, unsigned long long *body)
{
    char text[4096];
    size_t have = 0;
    for (;;) {
        ssize_t n = recv(s, text + have, sizeof text - 1 - have, 0);
        if (n <= 0)
            fail("header");
        have += (size_t)n;
        text[have] = 0;
        char *end = strstr(text, "\r\n\r\n");
        if (!end) {
            if (have == sizeof text - 1)
                fail("a long header");
            continue;
        }
        if (strncmp(text, "HTTP/1.1 206", 12) != 0) {
            fprintf(stderr, "refused: %.60s\n", text);
            exit(1);
        }
        *body = have - (size_t)(end + 4 - text);
        return;
    }
}

static void *fetches(void *state)
{
    int s = *(int *)state;
    const char *path;
    unsigned long long from, size, have;
    char ask[2048];
    while (take(&path, &from, &size)) {
        int n = snprintf(ask, sizeof ask,
                         "GET /%s HTTP/1.1\r\nHost: %s\r\nRange: bytes=%llu-%llu\r\n\r\n", path,
                         host, from, from + size - 1);
        if (n >= (int)sizeof ask || send(s, ask, (size_t)n, MSG_NOSIGNAL) != n)
            fail("asking");
        header(s, &have);
        /* dropped by the kernel, without a copy */
        while (have < size) {
            unsigned long long left = size - have;
            ssize_t got = recv(s, NULL, left < 1 << 20 ? left : 1 << 20, MSG_TRUNC);
            if (got <= 0)
                fail("body");
            have += (unsigned long long)got;
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[MOST_CONNECTIONS];
    char line[64];
    if (argc < 7 || argc % 2 == 0)
        return 2;
    host = argv[1];
    server.sin_port = htons((uint16_t)atoi(argv[2]));
    int connections = atoi(argv[3]);
    range = strtoull(argv[4], NULL, 10);
    objects = argv + 5;
    count = (argc - 5) / 2;
    if (inet_pton(AF_INET, host, &server.sin_addr) != 1 || connections < 1 ||
        connections > MOST_CONNECTIONS || range < 1)
        return 2;
    for (int i = 0; i < connections; i++) {
        sockets[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(sockets[i], (struct sockaddr *)&server, sizeof server))
            fail("connecting");
    }
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        return 0;
    double begun = now();
    for (int i = 0; i < connections; i++)
        pthread_create(&threads[i], NULL, fetches, &sockets[i]);
    for (int i = 0; i < connections; i++)
        pthread_join(threads[i], NULL);
    printf("{\"begun\": %.6f, \"ended\": %.6f, \"bytes\": %llu, \"requests\": %llu}\n", begun, now(),
           bytes, requests);
    return 0;
}
