/*
 * One kind of system call on a file or folder, many times: what bench/fuse/run.sh measures of each mount. Prints one
 * number: MiB, or calls, a second.
 *
 *   calls write   FILE MIB           1 MiB each, in order, and fsync at the end
 *   calls read    FILE               1 MiB each, in order
 *   calls randread  FILE BYTES N     blocks in random order, each at most once
 *   calls randwrite FILE BYTES N     the same, and fsync at the end
 *   calls fsync   FILE N             4 KiB appended and fsync, each
 *   calls create  DIR N              empty files
 *   calls stat    DIR N              those of `create`, in random order
 *   calls readdir DIR N              entries, over five passes
 *   calls unlink  DIR N
 *
 * Before what only reads, the kernel's own caches of the mount are dropped, so that each call reaches the server: pages
 * by posix_fadvise, names and attributes by drop_caches.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MIB (1 << 20)
#define PASSES 5

static uint64_t state = 0x9e3779b97f4a7c15;

static uint64_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void check(int fine, const char *what)
{
    if (!fine) {
        fprintf(stderr, "calls: %s: %s\n", what, strerror(errno));
        exit(1);
    }
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Names and attributes that the kernel holds; the pages of files stay. */
static void forget_names(void)
{
    int fd = open("/proc/sys/vm/drop_caches", O_WRONLY);
    check(fd >= 0 && write(fd, "2", 1) == 1, "drop_caches");
    close(fd);
}

static int opened(const char *path, int flags)
{
    int fd = open(path, flags, 0644);
    check(fd >= 0, path);
    return fd;
}

/* 0 to n-1 in random order, the same at each run. */
static uint32_t *shuffled(uint32_t n)
{
    uint32_t *order = malloc(sizeof *order * (n ? n : 1));
    check(order != NULL, "memory");
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    for (uint32_t i = n; i > 1; i--) {
        uint32_t other = draw() % i, kept = order[i - 1];
        order[i - 1] = order[other];
        order[other] = kept;
    }
    return order;
}

/* Memory that no compression makes smaller. */
static char *noise(size_t bytes)
{
    uint64_t *words = aligned_alloc(4096, bytes);
    check(words != NULL, "memory");
    for (size_t i = 0; i < bytes / sizeof *words; i++)
        words[i] = draw();
    return (char *)words;
}

static double write_in_order(const char *path, uint32_t mib)
{
    char *data = noise(MIB);
    int fd = opened(path, O_WRONLY | O_CREAT | O_TRUNC);
    double start = now();
    for (uint32_t i = 0; i < mib; i++) {
        memcpy(data, &i, sizeof i);
        check(write(fd, data, MIB) == MIB, "write");
    }
    check(fsync(fd) == 0, "fsync");
    return mib / (now() - start);
}

static double read_in_order(const char *path)
{
    char *data = noise(MIB);
    int fd = opened(path, O_RDONLY);
    check(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0, "fadvise");
    double start = now(), bytes = 0;
    ssize_t got;
    while ((got = read(fd, data, MIB)) > 0)
        bytes += got;
    check(got == 0, "read");
    return bytes / MIB / (now() - start);
}

static double random_blocks(const char *path, size_t size, uint32_t n, int writes)
{
    char *data = noise(size);
    int fd = opened(path, writes ? O_WRONLY : O_RDONLY);
    off_t end = lseek(fd, 0, SEEK_END);
    uint32_t blocks = end / size;
    check(blocks > 0, "a file of one block at least");
    uint32_t *order = shuffled(blocks);
    n = n < blocks ? n : blocks;
    check(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0, "fadvise");
    check(posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM) == 0, "fadvise");
    double start = now();
    for (uint32_t i = 0; i < n; i++) {
        off_t at = (off_t)order[i] * size;
        if (writes) {
            memcpy(data, &i, sizeof i);
            check(pwrite(fd, data, size, at) == (ssize_t)size, "write");
        } else {
            check(pread(fd, data, size, at) == (ssize_t)size, "read");
        }
    }
    if (writes)
        check(fsync(fd) == 0, "fsync");
    return n / (now() - start);
}

static double synced(const char *path, uint32_t n)
{
    char *data = noise(4096);
    int fd = opened(path, O_WRONLY | O_CREAT | O_TRUNC);
    double start = now();
    for (uint32_t i = 0; i < n; i++) {
        check(write(fd, data, 4096) == 4096, "write");
        check(fsync(fd) == 0, "fsync");
    }
    return n / (now() - start);
}

/* A call on each of the names f0, f1, … of a folder. */
static double on_names(const char *dir, uint32_t n, const char *what)
{
    uint32_t *order = shuffled(n);
    int top = opened(dir, O_RDONLY | O_DIRECTORY);
    char name[16];
    struct stat found;
    if (strcmp(what, "stat") == 0)
        forget_names();
    double start = now();
    for (uint32_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "f%u", strcmp(what, "create") == 0 ? i : order[i]);
        if (strcmp(what, "create") == 0) {
            int fd = openat(top, name, O_WRONLY | O_CREAT | O_EXCL, 0644);
            check(fd >= 0 && close(fd) == 0, name);
        } else if (strcmp(what, "stat") == 0) {
            check(fstatat(top, name, &found, 0) == 0, name);
        } else {
            check(unlinkat(top, name, 0) == 0, name);
        }
    }
    return n / (now() - start);
}

static double list(const char *path, uint32_t n)
{
    double spent = 0;
    for (int pass = 0; pass < PASSES; pass++) {
        forget_names();
        double start = now();
        DIR *dir = opendir(path);
        check(dir != NULL, path);
        uint32_t seen = 0;
        while (readdir(dir) != NULL)
            seen++;
        closedir(dir);
        spent += now() - start;
        check(seen >= n, "fewer entries than files");
    }
    return PASSES * (double)n / spent;
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";
    unsigned long first = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
    unsigned long second = argc > 4 ? strtoul(argv[4], NULL, 10) : 0;
    double rate;
    if (strcmp(what, "read") == 0)
        rate = read_in_order(argv[2]);
    else if (first == 0)
        rate = -1;
    else if (strcmp(what, "write") == 0)
        rate = write_in_order(argv[2], first);
    else if (strcmp(what, "fsync") == 0)
        rate = synced(argv[2], first);
    else if (strcmp(what, "readdir") == 0)
        rate = list(argv[2], first);
    else if (strcmp(what, "create") == 0 || strcmp(what, "stat") == 0 || strcmp(what, "unlink") == 0)
        rate = on_names(argv[2], first, what);
    else if (second > 0 && (strcmp(what, "randread") == 0 || strcmp(what, "randwrite") == 0))
        rate = random_blocks(argv[2], first, second, strcmp(what, "randwrite") == 0);
    else
        rate = -1;
    if (rate < 0) {
        fprintf(stderr, "calls: wrong arguments; the head of calls.c says which there are\n");
        return 2;
    }
    printf("%.1f\n", rate);
    return 0;
}
