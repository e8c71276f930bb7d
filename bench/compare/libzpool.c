/*
 * What OpenZFS's own user-space engine does with the work of bench/write/writebench.rs:
 * threads that each write an object of 128 KiB blocks, until all is synced; then reading it back
 * with an empty cache; then random overwrites of 8 KiB blocks.
 *
 * The functions of libzpool and libnvpair that it calls are declared here as far as they are used,
 * so that no header of OpenZFS is needed; run.sh builds and runs it.
 *
 *   libzpool IMAGE SIZE_MB BYTES_MB THREADS ROUNDS [CHECKSUM COMPRESSION]
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

typedef struct nvlist nvlist_t;
typedef struct objset objset_t;
typedef struct dmu_tx dmu_tx_t;
typedef struct dsl_pool dsl_pool_t;

int nvlist_alloc(nvlist_t **, unsigned, int);
int nvlist_add_string(nvlist_t *, const char *, const char *);
int nvlist_add_uint64(nvlist_t *, const char *, uint64_t);
int nvlist_add_nvlist_array(nvlist_t *, const char *, nvlist_t *const *, unsigned);
void kernel_init(int);
int spa_create(const char *, nvlist_t *, nvlist_t *, nvlist_t *, void *);
int spa_destroy(const char *);
int dsl_prop_set_int(const char *, const char *, int, uint64_t);
int dmu_objset_create(const char *, int, uint64_t, void *, void *, void *);
int dmu_objset_own(const char *, int, int, int, const void *, objset_t **);
void dmu_objset_disown(objset_t *, int, const void *);
dsl_pool_t *dmu_objset_pool(objset_t *);
uint64_t dmu_object_alloc(objset_t *, int, int, int, int, dmu_tx_t *);
dmu_tx_t *dmu_tx_create(objset_t *);
void dmu_tx_hold_write(dmu_tx_t *, uint64_t, uint64_t, int);
void dmu_tx_hold_bonus(dmu_tx_t *, uint64_t);
int dmu_tx_assign(dmu_tx_t *, uint64_t);
void dmu_tx_commit(dmu_tx_t *);
/* Newer versions have a last argument of flags; 0 means what older ones do. */
void dmu_write(objset_t *, uint64_t, uint64_t, uint64_t, const void *, dmu_tx_t *, uint32_t);
int dmu_read(objset_t *, uint64_t, uint64_t, uint64_t, void *, uint32_t);
void txg_wait_synced(dsl_pool_t *, uint64_t);
void arc_flush(void *, int);

#define NEW_OBJECT ((uint64_t)-1)
#define WAIT 1
#define LOCAL 8
#define OST_OTHER 4
#define FILE_CONTENTS 19
#define WINDOW (64 << 10)

static objset_t *set;
static uint64_t each, blocksize, objects[64];
static int mode;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static double cpu(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return u.ru_utime.tv_sec + u.ru_stime.tv_sec +
	    (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void must(int error, const char *what)
{
	if (error != 0) {
		fprintf(stderr, "%s: error %d\n", what, error);
		exit(1);
	}
}

static void *run(void *arg)
{
	uint64_t t = (uintptr_t)arg, state = t + 1;
	uint64_t *source = malloc(blocksize + WINDOW);
	char *buffer = malloc(1 << 20);
	for (uint64_t i = 0; i < (blocksize + WINDOW) / 8; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		source[i] = state;
	}
	uint64_t blocks = each / blocksize;
	for (uint64_t n = 0; n < blocks && mode != 'r'; n++) {
		uint64_t at = n * blocksize;
		if (mode == 'o') {
			state = state * 6364136223846793005ULL + 1;
			at = (state >> 33) % blocks * blocksize;
		}
		dmu_tx_t *tx = dmu_tx_create(set);
		dmu_tx_hold_write(tx, objects[t], at, (int)blocksize);
		must(dmu_tx_assign(tx, WAIT), "dmu_tx_assign");
		char *from = (char *)source + n * 4096 % WINDOW;
		dmu_write(set, objects[t], at, blocksize, from, tx, 0);
		dmu_tx_commit(tx);
	}
	for (uint64_t at = 0; at < each && mode == 'r'; at += 1 << 20)
		must(dmu_read(set, objects[t], at, 1 << 20, buffer, 0), "dmu_read");
	free(source);
	free(buffer);
	return NULL;
}

/* Seconds of all threads and, when they wrote, of the sync behind them. */
static double all(int threads, int what, double *cpus)
{
	pthread_t ids[64];
	mode = what;
	*cpus = cpu();
	double began = now();
	for (int t = 0; t < threads; t++)
		pthread_create(&ids[t], NULL, run, (void *)(uintptr_t)t);
	for (int t = 0; t < threads; t++)
		pthread_join(ids[t], NULL);
	if (what != 'r')
		txg_wait_synced(dmu_objset_pool(set), 0);
	double took = now() - began;
	*cpus = cpu() - *cpus;
	return took;
}

static void show(const char *work, int threads, double done, const char *unit, double took,
    double cpus)
{
	double n = sysconf(_SC_NPROCESSORS_ONLN);
	printf("libzpool %-10s %3d  %10.0f  cpu allows %8.0f %s\n", work, threads, done / took,
	    done / cpus * n, unit);
	fflush(stdout);
}

static void new_objects(int threads)
{
	for (int t = 0; t < threads; t++) {
		dmu_tx_t *tx = dmu_tx_create(set);
		dmu_tx_hold_bonus(tx, NEW_OBJECT);
		must(dmu_tx_assign(tx, WAIT), "dmu_tx_assign");
		objects[t] = dmu_object_alloc(set, FILE_CONTENTS, (int)blocksize, 0, 0, tx);
		dmu_tx_commit(tx);
	}
	txg_wait_synced(dmu_objset_pool(set), 0);
}

int main(int argc, char **argv)
{
	if (argc < 6) {
		fprintf(stderr, "usage: %s IMAGE SIZE_MB BYTES_MB THREADS ROUNDS "
		    "[CHECKSUM COMPRESSION]\n", argv[0]);
		return 2;
	}
	uint64_t size = strtoull(argv[2], NULL, 10) << 20, bytes = strtoull(argv[3], NULL, 10) << 20;
	int threads = atoi(argv[4]), rounds = atoi(argv[5]);
	/* The numbers of fletcher4 and off. */
	uint64_t checksum = argc > 6 ? strtoull(argv[6], NULL, 10) : 7;
	uint64_t compression = argc > 7 ? strtoull(argv[7], NULL, 10) : 2;
	if (threads < 1 || threads > 64)
		return 2;

	FILE *image = fopen(argv[1], "w");
	if (image == NULL || ftruncate(fileno(image), (off_t)size) != 0) {
		perror(argv[1]);
		return 1;
	}
	fclose(image);
	nvlist_t *root, *leaf;
	nvlist_alloc(&leaf, 1, 0);
	nvlist_add_string(leaf, "type", "file");
	nvlist_add_string(leaf, "path", argv[1]);
	nvlist_add_uint64(leaf, "ashift", 12);
	nvlist_add_uint64(leaf, "is_log", 0);
	nvlist_alloc(&root, 1, 0);
	nvlist_add_string(root, "type", "root");
	nvlist_add_nvlist_array(root, "children", &leaf, 1);

	kernel_init(3);
	must(spa_create("lzbench", root, NULL, NULL, NULL), "spa_create");
	must(dmu_objset_create("lzbench/a", OST_OTHER, 0, NULL, NULL, NULL), "dmu_objset_create");
	must(dsl_prop_set_int("lzbench/a", "checksum", LOCAL, checksum), "checksum");
	must(dsl_prop_set_int("lzbench/a", "compression", LOCAL, compression), "compression");
	must(dmu_objset_own("lzbench/a", OST_OTHER, 0, 1, "bench", &set), "dmu_objset_own");

	double took, cpus;
	for (int round = 0; round < rounds; round++) {
		blocksize = 128 << 10;
		each = bytes / threads / (1 << 20) * (1 << 20);
		if (round == 0)
			new_objects(threads);
		double mb = each * threads / 1e6;
		took = all(threads, 'w', &cpus);
		show(round == 0 ? "seqwrite" : "rewrite", threads, mb, "MB/s", took, cpus);
		arc_flush(NULL, 1);
		took = all(threads, 'r', &cpus);
		show("seqread", threads, mb, "MB/s", took, cpus);
	}
	blocksize = 8 << 10;
	each = bytes / 8 / threads / (1 << 20) * (1 << 20);
	new_objects(threads);
	all(threads, 'w', &cpus);
	took = all(threads, 'o', &cpus);
	show("randwrite", threads, each * threads / 8192.0, "IOPS", took, cpus);
	dmu_objset_disown(set, 1, "bench");
	/* The pool goes with its image. */
	_exit(0);
}
