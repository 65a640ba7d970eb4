/* What the plain C peers share: a deadline, a failing call that ends the program with its name, the objects of one connection. */
#ifndef SPINWIRE_INTEROP_COMMON_H
#define SPINWIRE_INTEROP_COMMON_H

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEFAULT_PORT = 12345, BUFFER_BYTES = 256, DEADLINE_SECONDS = 30, RESOLVE_MS = 2000 };

/* One connection: one buffer to receive into, one to send from, one completion queue for both. */
struct peer {
  struct rdma_cm_id *id;
  struct ibv_pd *pd;
  struct ibv_comp_channel *completions;
  struct ibv_cq *cq;
  struct ibv_mr *receive_mr, *send_mr;
  char *receive_buffer, *send_buffer;
  uint32_t buffer_bytes;
};

static inline void die(const char *what, const char *why) {
  fprintf(stderr, "interop: %s: %s\n", what, why);
  exit(1);
}

/* Calls that return 0 or -1 with errno. */
static inline void need_zero(int result, const char *call) {
  if (result != 0) die(call, strerror(errno));
}

/* Verbs that return 0 or the errno itself. */
static inline void need_posted(int result, const char *call) {
  if (result != 0) die(call, strerror(result > 0 ? result : errno));
}

static inline void *need(void *pointer, const char *call) {
  if (pointer == NULL) die(call, strerror(errno));
  return pointer;
}

static inline void address_of(const char *host, uint16_t port, struct sockaddr_storage *out) {
  struct addrinfo hints = {.ai_flags = AI_NUMERICHOST}, *found;
  char service[8];
  snprintf(service, sizeof service, "%u", port);
  int error = getaddrinfo(host, service, &hints, &found);
  if (error != 0) die(host, gai_strerror(error));
  memset(out, 0, sizeof *out);
  memcpy(out, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
}

static inline void post_receive(struct peer *peer) {
  struct ibv_sge sge = {.addr = (uintptr_t)peer->receive_buffer, .length = peer->buffer_bytes, .lkey = peer->receive_mr->lkey};
  struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *bad;
  need_posted(ibv_post_recv(peer->id->qp, &wr, &bad), "ibv_post_recv");
}

static inline void post_send(struct peer *peer, uint32_t bytes) {
  struct ibv_sge sge = {.addr = (uintptr_t)peer->send_buffer, .length = bytes, .lkey = peer->send_mr->lkey};
  struct ibv_send_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
  need_posted(ibv_post_send(peer->id->qp, &wr, &bad), "ibv_post_send");
}

/* Queue pair, completion queue, two registered buffers and the one posted receive. */
static inline void build_peer(struct peer *peer, struct rdma_cm_id *id, uint32_t buffer_bytes) {
  *peer = (struct peer){.id = id, .buffer_bytes = buffer_bytes};
  peer->pd = need(ibv_alloc_pd(id->verbs), "ibv_alloc_pd");
  peer->completions = need(ibv_create_comp_channel(id->verbs), "ibv_create_comp_channel");
  peer->cq = need(ibv_create_cq(id->verbs, 10, NULL, peer->completions, 0), "ibv_create_cq");
  need_posted(ibv_req_notify_cq(peer->cq, 0), "ibv_req_notify_cq");

  struct ibv_qp_init_attr attributes = {
      .send_cq = peer->cq,
      .recv_cq = peer->cq,
      .qp_type = IBV_QPT_RC,
      .cap = {.max_send_wr = 10, .max_recv_wr = 10, .max_send_sge = 1, .max_recv_sge = 1},
  };
  need_zero(rdma_create_qp(id, peer->pd, &attributes), "rdma_create_qp");

  peer->receive_buffer = need(calloc(1, buffer_bytes), "calloc");
  peer->send_buffer = need(calloc(1, buffer_bytes), "calloc");
  peer->receive_mr = need(ibv_reg_mr(peer->pd, peer->receive_buffer, buffer_bytes, IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
  peer->send_mr = need(ibv_reg_mr(peer->pd, peer->send_buffer, buffer_bytes, 0), "ibv_reg_mr");
  post_receive(peer);
}

static inline void release_peer(struct peer *peer) {
  rdma_destroy_qp(peer->id);
  need_posted(ibv_dereg_mr(peer->receive_mr), "ibv_dereg_mr");
  need_posted(ibv_dereg_mr(peer->send_mr), "ibv_dereg_mr");
  free(peer->receive_buffer);
  free(peer->send_buffer);
  need_posted(ibv_destroy_cq(peer->cq), "ibv_destroy_cq");
  need_posted(ibv_destroy_comp_channel(peer->completions), "ibv_destroy_comp_channel");
  need_posted(ibv_dealloc_pd(peer->pd), "ibv_dealloc_pd");
  need_zero(rdma_destroy_id(peer->id), "rdma_destroy_id");
}

/* Blocks until a completion is there. */
static inline struct ibv_wc next_completion(struct peer *peer) {
  struct ibv_wc wc;
  for (;;) {
    int got = ibv_poll_cq(peer->cq, 1, &wc);
    if (got < 0) die("ibv_poll_cq", "failed");
    if (got == 1) return wc;
    struct ibv_cq *cq;
    void *context;
    need_zero(ibv_get_cq_event(peer->completions, &cq, &context), "ibv_get_cq_event");
    ibv_ack_cq_events(cq, 1);
    need_posted(ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
    /* What came before the queue was armed raises no event: the loop polls again. */
  }
}

/* Fetches the next event, gives it back, and ends the program when it is another one. */
static inline struct rdma_cm_id *expect_event(struct rdma_event_channel *channel, enum rdma_cm_event_type wanted) {
  struct rdma_cm_event *event;
  need_zero(rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
  enum rdma_cm_event_type got = event->event;
  struct rdma_cm_id *id = event->id;
  int status = event->status;
  need_zero(rdma_ack_cm_event(event), "rdma_ack_cm_event");
  if (got != wanted) {
    fprintf(stderr, "interop: expected %s, got %s with status %d\n", rdma_event_str(wanted), rdma_event_str(got), status);
    exit(1);
  }
  return id;
}

/* An id with a route to an address, from the address `source` unless that is NULL. */
static inline struct rdma_cm_id *resolved(struct rdma_event_channel *channel, const char *host, uint16_t port, const char *source) {
  struct rdma_cm_id *id;
  need_zero(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
  struct sockaddr_storage from, to;
  address_of(host, port, &to);
  if (source != NULL) address_of(source, 0, &from);
  need_zero(rdma_resolve_addr(id, source != NULL ? (struct sockaddr *)&from : NULL, (struct sockaddr *)&to, RESOLVE_MS), "rdma_resolve_addr");
  expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
  need_zero(rdma_resolve_route(id, RESOLVE_MS), "rdma_resolve_route");
  expect_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
  return id;
}

/* Listens, and says so. */
static inline struct rdma_cm_id *listening(struct rdma_event_channel *channel, const char *host, uint16_t port) {
  struct rdma_cm_id *listener;
  need_zero(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP), "rdma_create_id");
  struct sockaddr_storage address;
  address_of(host, port, &address);
  need_zero(rdma_bind_addr(listener, (struct sockaddr *)&address), "rdma_bind_addr");
  need_zero(rdma_listen(listener, 10), "rdma_listen");
  printf("listening on port %u\n", ntohs(rdma_get_src_port(listener)));
  fflush(stdout);
  return listener;
}

#endif
