"""Messages that did not reach a peer that lives are said again."""

from __future__ import annotations

from actors.protocol.ports import Address, DeliveryFailed
from actors.scheduling.liveness.lost_messages import RESEND_MS, LostMessages, UnheardMessages
from tests.support.main_thread import SteppedContext

PEER, OTHER = Address("c/peer"), Address("c/other")


def test_only_messages_in_the_table_are_repeated_each_once_and_later() -> None:
    context = SteppedContext()
    lost = LostMessages(context.main_thread, {str: lambda address, message: context.tell(address, message)})
    lost.on_delivery_failed(DeliveryFailed(PEER, "a", "no route"))
    lost.on_delivery_failed(DeliveryFailed(PEER, 1, "no route"))
    assert context.told == []
    context.advance(RESEND_MS)
    assert context.told == [(PEER, "a")]
    context.advance(10 * RESEND_MS)
    assert context.told == [(PEER, "a")]


def test_a_receiver_gets_all_that_it_has_not_heard_together_and_a_dead_one_nothing() -> None:
    context = SteppedContext()
    unheard = UnheardMessages(context, context.main_thread)  # type: ignore[arg-type]
    for receiver, message in ((PEER, 1), (OTHER, 2), (PEER, 3)):
        unheard.add(receiver, message)
    assert context.watched == [PEER, OTHER]
    unheard.forget(OTHER)
    unheard.tell(PEER)
    assert context.told == [(PEER, 1), (PEER, 3)]
    assert unheard.receivers == frozenset()
    context.advance(10 * RESEND_MS)
    assert context.told == [(PEER, 1), (PEER, 3)]
