/* Peers that break a rule, to see what Spinwire says and what becomes of its other connections.
 *
 *   rogue version   ADDRESS PORT SOURCE          asks for a connection with a hello of version 9; prints the refusal
 *   rogue oversized ADDRESS PORT SOURCE BYTES    connects as a plain program and sends one message of BYTES
 *   rogue flood     ADDRESS PORT SOURCE BYTES    connects with a good hello, then sends one message of BYTES
 *   rogue answers-version ADDRESS PORT           a listener that accepts one client with a hello of version 9
 *
 * Ends with 0 when the far side did what it should (refused, disconnected), 1 otherwise, and by SIGALRM after 30 s. */
#include "common.h"

enum { FOREIGN_VERSION = 9, OWN_VERSION = 1 };

/* Private data as core/src/cm/hello.rs lays it out: magic, version, kind 1, length, then credits and largest message. */
static void hello(uint8_t out[16], uint8_t version) {
  const uint8_t bytes[16] = {'S', 'P', 'N', 'W', version, 1, 16, 0, /* credits */ 34, 0, 0, 0, /* 4096 */ 0, 16, 0, 0};
  memcpy(out, bytes, sizeof bytes);
}

/* Fetches the next event, and keeps a copy of its private data. */
static struct rdma_cm_event take_event(struct rdma_event_channel *channel, uint8_t data[256]) {
  struct rdma_cm_event *event;
  need_zero(rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
  struct rdma_cm_event copy = *event;
  memset(data, 0, 256);
  if (event->param.conn.private_data != NULL) memcpy(data, event->param.conn.private_data, event->param.conn.private_data_len);
  need_zero(rdma_ack_cm_event(event), "rdma_ack_cm_event");
  printf("%s, status %d\n", rdma_event_str(copy.event), copy.status);
  return copy;
}

static int ask_with_foreign_version(struct rdma_event_channel *channel, char **argv) {
  struct peer peer;
  build_peer(&peer, resolved(channel, argv[2], (uint16_t)atoi(argv[3]), argv[4]), BUFFER_BYTES);
  uint8_t greeting[16], answer[256];
  hello(greeting, FOREIGN_VERSION);
  struct rdma_conn_param parameters = {.private_data = greeting, .private_data_len = sizeof greeting};
  need_zero(rdma_connect(peer.id, &parameters), "rdma_connect");
  struct rdma_cm_event event = take_event(channel, answer);
  printf("refusal: magic %.4s, code %u, listener %u, caller %u\n", (char *)answer, answer[8], answer[12], answer[16]);
  release_peer(&peer);
  return event.event == RDMA_CM_EVENT_REJECTED && memcmp(answer, "SPNW", 4) == 0 && answer[8] == 2 ? 0 : 1;
}

static int send_one(struct rdma_event_channel *channel, char **argv, uint8_t *greeting) {
  uint32_t bytes = (uint32_t)strtoul(argv[5], NULL, 10);
  struct peer peer;
  build_peer(&peer, resolved(channel, argv[2], (uint16_t)atoi(argv[3]), argv[4]), bytes);
  struct rdma_conn_param parameters = {.private_data = greeting, .private_data_len = greeting ? 16 : 0, .retry_count = 3, .rnr_retry_count = 3};
  need_zero(rdma_connect(peer.id, &parameters), "rdma_connect");
  expect_event(channel, RDMA_CM_EVENT_ESTABLISHED);
  post_send(&peer, bytes);
  struct ibv_wc wc;
  do wc = next_completion(&peer);
  while (wc.status == IBV_WC_SUCCESS && wc.opcode != IBV_WC_RECV);
  int answered = wc.status == IBV_WC_SUCCESS;
  printf("completion: %s\n", ibv_wc_status_str(wc.status));
  if (answered) return 1;
  uint8_t data[256];
  struct rdma_cm_event event = take_event(channel, data);
  release_peer(&peer);
  return event.event == RDMA_CM_EVENT_DISCONNECTED ? 0 : 1;
}

static int accept_with_foreign_version(struct rdma_event_channel *channel, char **argv) {
  struct rdma_cm_id *listener = listening(channel, argv[2], (uint16_t)atoi(argv[3]));
  struct peer peer;
  build_peer(&peer, expect_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST), BUFFER_BYTES);
  uint8_t greeting[16], data[256];
  hello(greeting, FOREIGN_VERSION);
  struct rdma_conn_param parameters = {.private_data = greeting, .private_data_len = sizeof greeting};
  need_zero(rdma_accept(peer.id, &parameters), "rdma_accept");
  /* The client reads the answer and leaves; whether ESTABLISHED is seen before that is a matter of timing. */
  struct rdma_cm_event event;
  do event = take_event(channel, data);
  while (event.event == RDMA_CM_EVENT_ESTABLISHED);
  release_peer(&peer);
  need_zero(rdma_destroy_id(listener), "rdma_destroy_id");
  return 0;
}

int main(int argc, char **argv) {
  alarm(DEADLINE_SECONDS);
  struct rdma_event_channel *channel = need(rdma_create_event_channel(), "rdma_create_event_channel");
  uint8_t greeting[16];
  hello(greeting, OWN_VERSION);
  if (argc == 5 && strcmp(argv[1], "version") == 0) return ask_with_foreign_version(channel, argv);
  if (argc == 6 && strcmp(argv[1], "oversized") == 0) return send_one(channel, argv, NULL);
  if (argc == 6 && strcmp(argv[1], "flood") == 0) return send_one(channel, argv, greeting);
  if (argc == 4 && strcmp(argv[1], "answers-version") == 0) return accept_with_foreign_version(channel, argv);
  fprintf(stderr, "usage: %s version|oversized|flood|answers-version ADDRESS PORT [SOURCE [BYTES]]\n", argv[0]);
  return 2;
}
