/* An rdma_cm client that knows nothing of Spinwire: it sends messages one at a time and checks each reply.
 *
 *   client ADDRESS [PORT [MESSAGES [SOURCE]]]
 *
 * The shape is that of the manual pages: one event channel with blocking calls, address and route resolved, then the
 * queue pair, a 256-byte buffer, one posted receive, connection parameters left at zero. Lengths run over 0 to 256
 * bytes. Ends with 0 when every one of MESSAGES (100) came back as it was sent, with 1 otherwise, and by SIGALRM after 30 s. */
#include "common.h"

/* Every byte depends on its place and on the message, so that a stale or shifted reply shows. */
static char pattern(unsigned long message, uint32_t at) { return (char)(message * 31 + at * 7 + (at >> 5)); }

/* Waits for both completions of a round trip, whichever comes first. Returns the length of the reply. */
static uint32_t round_trip(struct peer *peer) {
  uint32_t bytes = 0;
  for (int sent = 0, received = 0; !sent || !received;) {
    struct ibv_wc wc = next_completion(peer);
    if (wc.status != IBV_WC_SUCCESS) die("completion", ibv_wc_status_str(wc.status));
    if (wc.opcode == IBV_WC_RECV) {
      received = 1;
      bytes = wc.byte_len;
    } else {
      sent = 1;
    }
  }
  return bytes;
}

static void exchange(struct peer *peer, unsigned long message) {
  uint32_t bytes = (uint32_t)(message * 101 % (BUFFER_BYTES + 1));
  for (uint32_t at = 0; at < bytes; at++) peer->send_buffer[at] = pattern(message, at);
  memset(peer->receive_buffer, 0xee, BUFFER_BYTES);
  post_send(peer, bytes);
  uint32_t got = round_trip(peer);
  if (got != bytes) {
    fprintf(stderr, "interop: message %lu has %u bytes, its reply %u\n", message, bytes, got);
    exit(1);
  }
  for (uint32_t at = 0; at < bytes; at++) {
    if (peer->receive_buffer[at] != pattern(message, at)) {
      fprintf(stderr, "interop: the reply to message %lu differs at byte %u\n", message, at);
      exit(1);
    }
  }
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: %s ADDRESS [PORT [MESSAGES [SOURCE]]]\n", argv[0]);
    return 2;
  }
  uint16_t port = argc > 2 ? (uint16_t)atoi(argv[2]) : DEFAULT_PORT;
  unsigned long messages = argc > 3 ? strtoul(argv[3], NULL, 10) : 100;
  alarm(DEADLINE_SECONDS);

  struct rdma_event_channel *channel = need(rdma_create_event_channel(), "rdma_create_event_channel");
  struct rdma_cm_id *id = resolved(channel, argv[1], port, argc > 4 ? argv[4] : NULL);

  struct peer peer;
  build_peer(&peer, id, BUFFER_BYTES);
  struct rdma_conn_param parameters = {0};
  need_zero(rdma_connect(id, &parameters), "rdma_connect");
  expect_event(channel, RDMA_CM_EVENT_ESTABLISHED);

  for (unsigned long message = 0; message < messages; message++) {
    exchange(&peer, message);
    if (message + 1 < messages) post_receive(&peer);
  }

  need_zero(rdma_disconnect(id), "rdma_disconnect");
  expect_event(channel, RDMA_CM_EVENT_DISCONNECTED);
  release_peer(&peer);
  rdma_destroy_event_channel(channel);
  printf("%lu replies, all as sent\n", messages);
  return 0;
}
