"""What a launcher says in the environment, and what ranks tell each other."""

import socket
from threading import Thread

import numpy as np
import pytest

from phloem.errors import BadArgument, ProgramProblem
from phloem.runs import meeting
from phloem.runs.meeting import Place, meet
from phloem.runs.ranks import ALONE, Parcel, Ranks
from phloem.runs.wires import Wire
from support.messages import saying

GOOD = {"RANK": "1", "WORLD_SIZE": "3", "MASTER_ADDR": "node7", "MASTER_PORT": "29500"}


def test_a_place_is_what_the_launcher_says():
    assert Place.of(GOOD) == Place(1, 3, "node7", 29500)
    assert Place.of({}) is None
    assert Place.of({**GOOD, "WORLD_SIZE": "1", "RANK": ""}) is None


@pytest.mark.parametrize(
    ("name", "text", "facts"),
    [
        ("RANK", "", "WORLD_SIZE is 3 … RANK is not set"),
        ("MASTER_ADDR", "", "MASTER_ADDR is not set"),
        ("RANK", "-1", "RANK is '-1' … whole number"),
        ("RANK", "3", "RANK 3 of WORLD_SIZE 3 … 0 to 2"),
        ("WORLD_SIZE", "0", "WORLD_SIZE 0"),
        ("MASTER_PORT", "99999", "MASTER_PORT 99999"),
    ],
)
def test_what_a_launcher_gets_wrong_is_told(name, text, facts):
    with pytest.raises(BadArgument, match=saying(facts)):
        Place.of({**GOOD, name: text})


def test_shares_are_of_all_particles_and_alike():
    for size in (1, 2, 3, 7):
        for count in (7, 10, 100):
            shares = []
            for rank in range(size):
                ranks = Ranks()
                ranks.rank, ranks.size = rank, size
                shares.append(ranks.share(count))
            assert [place for first, end in shares for place in range(first, end)] == [*range(count)]
            sizes = [end - first for first, end in shares]
            assert max(sizes) - min(sizes) <= 1


def test_a_process_alone_does_all_itself():
    own = np.arange(3.0)
    assert ALONE.gathered(own, 3) is own
    assert ALONE.share(10) == (0, 10)


def test_messages_arrive_whole_and_in_order():
    ends = [Wire(one) for one in connected_sockets()]
    arrays = {
        "double": np.array([[0.1, -np.inf]]),
        "none": np.empty((3, 0)),
        "large": np.arange(3_000_000, dtype=np.int32),
    }
    values = {"seed": 2**62, "path": [0.1, 1.0], "name": "é"}

    def send() -> None:
        ends[0].send("first", Parcel(values, arrays))
        ends[0].send("second")
        ends[0].close()

    sender = Thread(target=send)
    sender.start()
    name, parcel = ends[1].receive()
    assert (name, parcel.values) == ("first", values)
    assert parcel.arrays.keys() == arrays.keys()
    for key, array in arrays.items():
        np.testing.assert_array_equal(parcel.arrays[key], array)
        assert parcel.arrays[key].dtype == array.dtype
    assert ends[1].receive().name == "second"
    with pytest.raises(EOFError):
        ends[1].receive()
    sender.join()
    ends[1].close()


def test_a_long_message_of_a_stranger_is_not_read():
    one, other = connected_sockets()
    one.sendall(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(ValueError, match="bytes"):
        Wire(other).receive(most_bytes=1000)
    one.close()
    other.close()


def connected_sockets() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        return one, server.accept()[0]


@pytest.mark.parametrize(("rank", "facts"), [(0, "rank 1 has not come … WORLD_SIZE"), (1, "rank 0 is not there")])
def test_ranks_that_do_not_come_are_told(rank, facts):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(ProgramProblem, match=saying(facts)):
        meet(Place(rank, 2, "127.0.0.1", port), seconds=0.1)


def test_cores_are_those_of_all_ranks_that_may_use_them():
    greetings = {
        0: {"host": "a", "cores": [0, 1]},
        1: {"host": "a", "cores": [1, 2]},
        2: {"host": "a", "cores": [3]},
        3: {"host": "b", "cores": [0, 1]},
        4: {"host": "c", "cores": []},
        5: {"host": "c", "cores": []},
    }
    assert [meeting._sharing(greetings, rank) for rank in greetings] == [2, 2, 1, 1, 2, 2]
