"""What GatewayPeers have to be looked at again after a change: all of a cluster, or those that it concerns."""

import pytest

from agent.controllers.gateways.news import At, News

EU: At = ("eu", "shop")


def take(news: News, again: float | None = None) -> set[str] | None:
    with news.told(EU) as telling:
        telling.again = again
    return None if telling.only is None else set(telling.only)


def told_once() -> News:
    news = News()
    assert take(news) is None
    return news


def test_a_cluster_is_told_of_all_others_at_first() -> None:
    news = News()
    news.add(EU, "us")
    assert take(news) is None


def test_then_of_those_that_a_change_concerns() -> None:
    news = told_once()
    news.add(EU, "us")
    news.add(EU, "cd")
    news.add(("us", "shop"), "cd")
    assert take(news) == {"us", "cd"}


@pytest.mark.parametrize("peers", [("us", ""), ("", "us"), ("",), ()])
def test_and_of_all_where_any_change_may_concern_all_or_nobody_says_what_has_changed(peers: tuple[str, ...]) -> None:
    news = told_once()
    for peer in peers:
        news.add(EU, peer)
    assert take(news) is None


def test_what_is_to_be_looked_at_again_counts_as_not_told() -> None:
    news = told_once()
    news.add(EU, "us")
    assert take(news, again=0.5) == {"us"}
    news.add(EU, "cd")
    assert take(news) == {"us", "cd"}
    news.add(EU)
    assert take(news, again=0.5) is None
    news.add(EU, "us")
    assert take(news) is None


def test_what_could_not_be_told_counts_as_not_told() -> None:
    news = told_once()
    news.add(EU, "us")

    def fail() -> None:
        with news.told(EU):
            news.add(EU, "cd")
            raise OSError("away")

    with pytest.raises(OSError, match="away"):
        fail()
    assert take(news) == {"us", "cd"}


def test_what_changes_meanwhile_is_told_the_next_time() -> None:
    news = told_once()
    with news.told(EU):
        news.add(EU, "us")
    assert take(news) == {"us"}
    with news.told(EU):
        news.add(EU)
    assert take(news) is None


def test_a_cluster_that_is_back_is_told_of_all() -> None:
    news = told_once()
    news.forget("eu")
    news.add(EU, "us")
    assert take(news) is None
