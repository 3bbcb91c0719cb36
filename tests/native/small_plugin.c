/* A plugin whose providers do nothing but tell what reached them, so that a test can see what the
 * compat wrapper forwards, declares and leaves alone. The variables below steer it. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct api_base {
    const void *(*get_api)(uint32_t version);
    const char *(*get_version)(void);
};

enum { GET_EXPERIMENTAL = 422, LOOK_UP_READ = 1, LOOK_UP_WRITE = 2 };
enum { SLOTS = 26, CANARIES = 8, FACTORY_SLOTS = 40 };

uint32_t small_version = 29;     /* of the providers it makes */
uint32_t small_api_version = 29; /* of the table it asks for */
int small_looks_up;              /* LOOK_UP_… */
size_t small_factories = 1;
int small_alive;      /* providers made and not released */
void *small_last_self; /* the object that the last call got */

struct provider {
    void *slot[SLOTS];
    void *canary[CANARIES]; /* a class's own members follow its functions */
};

struct factory {
    void *slot[FACTORY_SLOTS];
    void *const *api;
};

#define FUNCTION(i)                                                                                \
    static uintptr_t function_##i(void *self, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d,  \
                                  uintptr_t e)                                                     \
    {                                                                                              \
        small_last_self = self;                                                                    \
        return i + 100 * a + 1000 * b + 10000 * c + 100000 * d + 1000000 * e;                      \
    }
#define EACH(X)                                                                                    \
    X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17)    \
    X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25)
#define NAME(i) (void *)function_##i,
EACH(FUNCTION)
static void *const functions[SLOTS] = {NULL, EACH(NAME)};

static void look_up(void *const *api, const char *name)
{
    ((void *(*)(const char *))api[GET_EXPERIMENTAL])(name);
}

static void *create_ep(void *self, void *devices, void *metadata, size_t count, void *options,
                       void *logger, void **ep)
{
    struct factory *f = self;
    (void)devices, (void)metadata, (void)count, (void)options, (void)logger;
    if (small_looks_up & LOOK_UP_READ)
        look_up(f->api, "OrtEpApi_EpContextConfig_GetEpContextDataReadFunc_SinceV28");
    if (small_looks_up & LOOK_UP_WRITE)
        look_up(f->api, "OrtEpApi_EpContextConfig_GetEpContextDataWriteFunc_SinceV28");
    struct provider *p = calloc(1, sizeof *p);
    if (!p)
        abort();
    memcpy(p->slot, functions, sizeof functions);
    memcpy(p->slot, &small_version, sizeof small_version);
    memset(p->canary, 0xAB, sizeof p->canary);
    small_alive++;
    *ep = p;
    return NULL;
}

static void release_ep(void *self, void *ep)
{
    (void)self;
    small_last_self = ep;
    small_alive--;
    free(ep);
}

void *CreateEpFactories(const char *name, const struct api_base *base, const void *logger,
                        void **factories, size_t max, size_t *count)
{
    (void)name, (void)logger;
    *count = small_factories < max ? small_factories : max;
    for (size_t i = 0; i < *count; i++) {
        struct factory *f = calloc(1, sizeof *f);
        if (!f)
            abort();
        f->api = base->get_api(small_api_version);
        f->slot[4] = (void *)create_ep;
        f->slot[5] = (void *)release_ep;
        factories[i] = f;
    }
    return NULL;
}

void *ReleaseEpFactory(void *factory)
{
    struct factory *f = factory;
    int restored = f->slot[4] == (void *)create_ep && f->slot[5] == (void *)release_ep;
    free(f);
    return restored ? NULL : (void *)"the factory came back changed";
}
