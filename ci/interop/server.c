/* An rdma_cm server that knows nothing of Spinwire: it echoes what one client sends, one message at a time.
 *
 *   server ADDRESS [PORT [MESSAGES]]
 *
 * The shape is that of the manual pages: one event channel with blocking calls, the queue pair made on
 * CONNECT_REQUEST, a 256-byte buffer, one posted receive, connection parameters left at zero. Ends with 0 when the
 * client has disconnected after exactly MESSAGES (100) echoes, with 1 otherwise, and by SIGALRM after 30 s. */
#include "common.h"

#include <pthread.h>
#include <stdatomic.h>

static atomic_ulong echoed;

/* Answers until the queue pair is flushed. The main thread blocks in rdma_get_cm_event meanwhile. */
static void *answer(void *argument) {
  struct peer *peer = argument;
  for (;;) {
    struct ibv_wc wc = next_completion(peer);
    if (wc.status == IBV_WC_WR_FLUSH_ERR) return NULL;
    if (wc.status != IBV_WC_SUCCESS) die("completion", ibv_wc_status_str(wc.status));
    if (wc.opcode != IBV_WC_RECV) continue;
    uint32_t bytes = wc.byte_len;
    memcpy(peer->send_buffer, peer->receive_buffer, bytes);
    /* Before the answer goes out: the client sends its next message as soon as it has it. */
    post_receive(peer);
    post_send(peer, bytes);
    atomic_fetch_add(&echoed, 1);
  }
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: %s ADDRESS [PORT [MESSAGES]]\n", argv[0]);
    return 2;
  }
  uint16_t port = argc > 2 ? (uint16_t)atoi(argv[2]) : DEFAULT_PORT;
  unsigned long messages = argc > 3 ? strtoul(argv[3], NULL, 10) : 100;
  alarm(DEADLINE_SECONDS);

  struct rdma_event_channel *channel = need(rdma_create_event_channel(), "rdma_create_event_channel");
  struct rdma_cm_id *listener = listening(channel, argv[1], port);

  struct peer peer;
  build_peer(&peer, expect_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST), BUFFER_BYTES);
  struct rdma_conn_param parameters = {0};
  need_zero(rdma_accept(peer.id, &parameters), "rdma_accept");
  expect_event(channel, RDMA_CM_EVENT_ESTABLISHED);

  pthread_t thread;
  errno = pthread_create(&thread, NULL, answer, &peer);
  need_zero(errno, "pthread_create");
  expect_event(channel, RDMA_CM_EVENT_DISCONNECTED);
  /* Moves the queue pair to its error state, so the posted receive comes back flushed and the thread ends. EINVAL
   * means that it is there already. */
  if (rdma_disconnect(peer.id) != 0 && errno != EINVAL) die("rdma_disconnect", strerror(errno));
  errno = pthread_join(thread, NULL);
  need_zero(errno, "pthread_join");

  release_peer(&peer);
  need_zero(rdma_destroy_id(listener), "rdma_destroy_id");
  rdma_destroy_event_channel(channel);
  printf("echoed %lu messages of %lu\n", atomic_load(&echoed), messages);
  return atomic_load(&echoed) == messages ? 0 : 1;
}
