/* Provider objects: a plugin's object ends where its version ends and its class's own members
 * follow, so it can't be extended in place. The runtime gets an object of ours that forwards every
 * function the plugin's has and says which callbacks the plugin honours. */
#define _GNU_SOURCE
#include "ep_compat.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { EP_SLOTS = 27, OLDEST = 23, LAST_FORWARDED = 25 };

typedef void *(*generic)(void *, void *, void *, void *, void *, void *);

struct wrapper { /* begins with what the runtime takes for the provider object */
    void *slot[EP_SLOTS];
    void **inner;
    struct plugin *plugin;
    const void *factory;
    struct wrapper *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct wrapper *alive;

/* Each function takes the object and at most five more integers or pointers, and none a floating
 * number: under the 64-bit calling conventions, which pass six in registers, one shape fits all. */
#define FORWARD(i)                                                                                 \
    static void *forward_##i(void *self, void *a, void *b, void *c, void *d, void *e)              \
    {                                                                                              \
        void **inner = ((struct wrapper *)self)->inner;                                            \
        return ((generic)inner[i])(inner, a, b, c, d, e);                                          \
    }
#define EACH(X)                                                                                    \
    X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17)    \
    X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25)
#define NAME(i) forward_##i,
EACH(FORWARD)
static const generic forwarders[] = {NULL, EACH(NAME)};

/* the last slot of an object of versions 23 to 30 */
static const int last_slot[] = {12, 14, 16, 21, 24, 24, 25, 25};

static void *callback_support(const void *self, uint32_t *flags)
{
    *flags = (uint32_t)__atomic_load_n(&((const struct wrapper *)self)->plugin->supports,
                                       __ATOMIC_RELAXED);
    return NULL;
}

void *sealcar_ep_wrap(void ***ep, struct plugin *plugin, const void *factory)
{
    void **inner = *ep;
    uint32_t version, declared = FIRST_STABLE; /* the lowest that has the support function */
    memcpy(&version, inner, sizeof version);
    if (version >= FIRST_STABLE)
        return NULL; /* it speaks for itself */
    if (version < OLDEST)
        return sealcar_ep_status("the plugin's provider has a version that sealcar doesn't know");
    struct wrapper *w = calloc(1, sizeof *w);
    if (!w)
        return sealcar_ep_status("no memory for a provider");
    w->inner = inner;
    w->plugin = plugin;
    w->factory = factory;
    memcpy(w->slot, &declared, sizeof declared);
    for (int i = 1; i <= last_slot[version - OLDEST]; i++)
        w->slot[i] = inner[i] ? (void *)forwarders[i] : NULL;
    w->slot[EP_CALLBACK_SUPPORT] = (void *)callback_support;
    pthread_mutex_lock(&lock);
    w->next = alive;
    alive = w;
    pthread_mutex_unlock(&lock);
    *ep = w->slot;
    return NULL;
}

/* the link that holds a wrapper, or the NULL at the end; under the lock */
static struct wrapper **find(const void *ep)
{
    struct wrapper **link = &alive;
    while (*link && (const void *)*link != ep)
        link = &(*link)->next;
    return link;
}

void *sealcar_ep_inner(const void *ep)
{
    pthread_mutex_lock(&lock);
    struct wrapper *w = *find(ep);
    void *inner = w ? (void *)w->inner : (void *)ep;
    pthread_mutex_unlock(&lock);
    return inner;
}

void *sealcar_ep_unwrap(void *ep)
{
    pthread_mutex_lock(&lock);
    struct wrapper **link = find(ep), *w = *link;
    if (w)
        *link = w->next;
    pthread_mutex_unlock(&lock);
    void *inner = w ? (void *)w->inner : ep;
    free(w);
    return inner;
}

size_t sealcar_ep_count(const void *factory)
{
    size_t count = 0;
    pthread_mutex_lock(&lock);
    for (struct wrapper *w = alive; w; w = w->next)
        count += w->factory == factory;
    pthread_mutex_unlock(&lock);
    return count;
}
