// DPDK's ring and mempool for the benches. Both are inline functions of C headers, so the loops that are measured stand
// here as well: a call across languages for each item would be counted against them.

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_mempool.h>
#include <rte_pause.h>
#include <rte_ring.h>
#include <rte_ring_elem.h>

enum { BATCH = 32, IDLE_TURNS = 1 << 20 };

// A ring of `count` slots, of which one stays free, in memory of its own: no EAL is needed for that. NULL without memory.
struct rte_ring *bench_ring_new(unsigned item_bytes, unsigned count, bool many_producers) {
  ssize_t bytes = rte_ring_get_memsize_elem(item_bytes, count);
  if (bytes < 0) return NULL;
  struct rte_ring *ring = aligned_alloc(128, ((size_t)bytes + 127) / 128 * 128);
  if (ring == NULL) return NULL;
  unsigned flags = RING_F_SC_DEQ | (many_producers ? 0 : RING_F_SP_ENQ);
  if (rte_ring_init(ring, "bench", count, flags) != 0) {
    free(ring);
    return NULL;
  }
  return ring;
}

void bench_ring_free(struct rte_ring *ring) { free(ring); }

// An item is one number, repeated in all its words.
#define FILL(items, words, count, first)                                    \
  for (unsigned i = 0; i < (count); i++)                                    \
    for (unsigned word = 0; word < (words); word++) (items)[i][word] = (first) + i

// Functions for items of WORDS words. What they do is said at those for any size, below.
#define RING_OF(BYTES, WORDS)                                                                                       \
  static uint64_t produce_##BYTES(struct rte_ring *ring, uint64_t first, uint64_t count, unsigned batch) {          \
    uint64_t done = 0, items[BATCH][WORDS];                                                                         \
    for (unsigned idle = 0; done < count && idle < IDLE_TURNS;) {                                                   \
      unsigned pushed;                                                                                              \
      if (batch == 1) {                                                                                             \
        FILL(items, WORDS, 1, first + done);                                                                        \
        pushed = rte_ring_sp_enqueue_elem(ring, items, BYTES) == 0;                                                 \
      } else {                                                                                                      \
        unsigned want = count - done < BATCH ? count - done : BATCH;                                                \
        FILL(items, WORDS, want, first + done);                                                                     \
        pushed = rte_ring_sp_enqueue_burst_elem(ring, items, BYTES, want, NULL);                                    \
      }                                                                                                             \
      if (pushed == 0) {                                                                                            \
        rte_pause();                                                                                                \
        idle++;                                                                                                     \
      }                                                                                                             \
      done += pushed;                                                                                               \
    }                                                                                                               \
    return done;                                                                                                    \
  }                                                                                                                 \
  static uint64_t consume_##BYTES(struct rte_ring *ring, uint64_t first, uint64_t count, unsigned batch,            \
                                  bool *right) {                                                                    \
    uint64_t done = 0, wrong = 0, items[BATCH][WORDS];                                                              \
    for (unsigned idle = 0; done < count && idle < IDLE_TURNS;) {                                                   \
      uint64_t left = count - done;                                                                                 \
      unsigned popped = batch == 1                                                                                  \
                            ? rte_ring_sc_dequeue_elem(ring, items, BYTES) == 0                                     \
                            : rte_ring_sc_dequeue_burst_elem(ring, items, BYTES, left < BATCH ? left : BATCH, NULL); \
      if (popped == 0) {                                                                                            \
        rte_pause();                                                                                                \
        idle++;                                                                                                     \
      }                                                                                                             \
      for (unsigned i = 0; i < popped; i++)                                                                         \
        for (unsigned word = 0; word < WORDS; word++) wrong |= items[i][word] ^ (first + done + i);                 \
      done += popped;                                                                                               \
    }                                                                                                               \
    *right = wrong == 0;                                                                                            \
    return done;                                                                                                    \
  }

RING_OF(8, 1)
RING_OF(56, 7)
RING_OF(64, 8)

// Sizes as constants, so that the copies are inlined. Others than these three are not asked for.
#define BY_SIZE(bytes, call)   \
  switch (bytes) {             \
    case 8: return call(8);    \
    case 56: return call(56);  \
    default: return call(64);  \
  }

// Items in, and how many there was room for.
unsigned bench_ring_enqueue(struct rte_ring *ring, unsigned bytes, const void *items, unsigned count) {
#define CALL(bytes) rte_ring_enqueue_burst_elem(ring, items, bytes, count, NULL)
  BY_SIZE(bytes, CALL)
#undef CALL
}

// Up to `count` items out, and how many.
unsigned bench_ring_dequeue(struct rte_ring *ring, unsigned bytes, void *items, unsigned count) {
#define CALL(bytes) rte_ring_sc_dequeue_burst_elem(ring, items, bytes, count, NULL)
  BY_SIZE(bytes, CALL)
#undef CALL
}

// Items first .. first + count in, from the only producer, one at a time or BATCH, until all are through or nothing
// went for IDLE_TURNS. How many went.
uint64_t bench_ring_produce(struct rte_ring *ring, unsigned bytes, uint64_t first, uint64_t count, unsigned batch) {
#define CALL(bytes) produce_##bytes(ring, first, count, batch)
  BY_SIZE(bytes, CALL)
#undef CALL
}

// The same items out. `right` becomes false if one is not whole or not the next.
uint64_t bench_ring_consume(struct rte_ring *ring, unsigned bytes, uint64_t first, uint64_t count, unsigned batch,
                            bool *right) {
#define CALL(bytes) consume_##bytes(ring, first, count, batch, right)
  BY_SIZE(bytes, CALL)
#undef CALL
}

// Starts DPDK's environment in this process, on one CPU: no hugepages, no devices, nothing in the file system. 0, or a
// negative number. A process can do that once.
int bench_eal_start(unsigned cpu) {
  char cpus[16];
  snprintf(cpus, sizeof cpus, "%u", cpu);
  char *arguments[] = {"bench", "--no-huge", "--no-shconf", "--no-pci", "--no-telemetry", "--log-level", "error",
                       "-m",    "64",        "-l",          cpus};
  return rte_eal_init(sizeof arguments / sizeof *arguments, arguments) < 0 ? -1 : 0;
}

// A pool of `count` buffers with the largest cache per core that DPDK allows. NULL if it cannot be had.
struct rte_mempool *bench_mempool_new(unsigned count, unsigned buffer_bytes) {
  return rte_mempool_create("bench", count, buffer_bytes, RTE_MEMPOOL_CACHE_MAX_SIZE, 0, NULL, NULL, NULL, NULL,
                            SOCKET_ID_ANY, 0);
}

const char *bench_dpdk_error(void) { return rte_strerror(rte_errno); }

// What is taken is used as far as the compiler knows.
static inline void use(void *buffers) { __asm__ volatile("" : : "r"(buffers) : "memory"); }

// Takes one buffer and releases it, `times` times. False if the pool was empty.
bool bench_mempool_single(struct rte_mempool *pool, uint64_t times) {
  for (uint64_t i = 0; i < times; i++) {
    void *buffer;
    if (rte_mempool_get(pool, &buffer) != 0) return false;
    use(buffer);
    rte_mempool_put(pool, buffer);
  }
  return true;
}

// Takes BATCH buffers and releases them, `times / BATCH` times and at least once. False if the pool was empty.
bool bench_mempool_bulk(struct rte_mempool *pool, uint64_t times) {
  uint64_t i = 0;
  do {
    void *buffers[BATCH];
    if (rte_mempool_get_bulk(pool, buffers, BATCH) != 0) return false;
    use(buffers);
    rte_mempool_put_bulk(pool, buffers, BATCH);
    i += BATCH;
  } while (i < times);
  return true;
}
