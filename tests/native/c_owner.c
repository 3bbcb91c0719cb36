/* Whom the C client takes for the owner of each directory that it is given: a line each. */
#include "sealcar.c"

int main(int count, char **directory)
{
    for (int i = 1; i < count; i++)
        printf("%lld\n", (long long)owner_of(directory[i]));
    return 0;
}
