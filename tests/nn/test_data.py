"""The data sets have the right shapes, batches contain every example, and readers reject damaged files."""

import ast
import collections
import gzip
import math
import random
import re
import struct
import tracemalloc
from array import array

import pytest

from micrograd.data import batches, circles, moons, read_csv, read_idx, spirals, standardize, train_test_split, xor

# Data sets


def test_xor_is_one_or_the_other_but_not_both():
    xs, ys = xor()
    assert sorted(xs) == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert ys == [int(a != b) for a, b in xs]


@pytest.mark.parametrize("make", [moons, circles, spirals])
def test_a_data_set_follows_from_its_seed(make):
    assert make(30, rng=7) == make(30, rng=7) == make(30, rng=random.Random(7))
    assert make(30, rng=7) != make(30, rng=8)
    random.seed(7)
    assert make(30) == make(30, rng=7)


@pytest.mark.parametrize("make", [moons, circles, spirals])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 100])
def test_the_points_are_shared_out_evenly_among_the_classes(make, n):
    xs, ys = make(n, rng=1)
    assert len(xs) == len(ys) == n
    assert collections.Counter(ys) == collections.Counter({0: (n + 1) // 2, 1: n // 2})
    assert all(len(x) == 2 and set(map(type, x)) == {float} for x in xs)


def test_moons_without_noise_are_two_half_circles():
    for (a, b), y in zip(*moons(50, noise=0), strict=True):
        if y == 0:
            assert (math.hypot(a, b), b > 0) == (pytest.approx(1), True)
        else:
            assert (math.hypot(a - 1, b - 0.5), b < 0.5) == (pytest.approx(1), True)


def test_circles_without_noise_have_the_radius_1_and_the_factor():
    xs, ys = circles(50, noise=0, factor=0.3)
    assert [math.hypot(*x) for x in xs] == pytest.approx([0.3 if y else 1 for y in ys])
    assert len(set(map(tuple, xs))) == 50
    assert [sum(x[i] for x in xs) for i in (0, 1)] == pytest.approx([0, 0], abs=1e-12)


def test_spirals_without_noise_wind_out_evenly():
    xs, ys = spirals(90, noise=0, arms=3, turns=0.5)
    for arm in range(3):
        points = [x for x, y in zip(xs, ys, strict=True) if y == arm]
        assert [math.hypot(*point) for point in points] == pytest.approx([(i + 0.5) / 30 for i in range(30)])
        for a, b in points:
            angle = math.tau * (arm / 3 + 0.5 * math.hypot(a, b))
            assert (a, b) == pytest.approx((math.hypot(a, b) * math.cos(angle), math.hypot(a, b) * math.sin(angle)))


def test_the_noise_has_its_standard_deviation():
    clean, noisy = moons(4000, noise=0)[0], moons(4000, noise=0.2, rng=3)[0]
    errors = [b - a for p, q in zip(clean, noisy, strict=True) for a, b in zip(p, q, strict=True)]
    assert math.sqrt(sum(e * e for e in errors) / len(errors)) == pytest.approx(0.2, rel=0.05)
    assert sum(errors) / len(errors) == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: moons(-1), "n is -1"),
        (lambda: moons(2.5), "n is 2.5"),
        (lambda: circles(10, noise=-0.1), "noise is -0.1"),
        (lambda: circles(10, noise=math.nan), "noise is nan"),
        (lambda: moons(noise="0.1"), "noise is '0.1': expected a finite number, 0 or greater"),
        (lambda: circles(factor=math.inf), "factor is inf"),
        (lambda: spirals(10, arms=0), "arms is 0"),
        (lambda: spirals(turns=math.nan), "turns is nan"),
        (lambda: batches([1], [1, 2], 1), "not 1 and 2"),
        (lambda: batches([1], [1], 0), "size is 0"),
    ],
)
def test_bad_arguments_are_refused_at_the_door(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("make", [moons, circles, spirals])
def test_a_data_set_takes_numpys_numbers_and_gives_pythons(make):
    numpy = pytest.importorskip("numpy")
    points = make(numpy.int64(30), numpy.float64(0.25), numpy.int64(7))
    assert points == make(30, 0.25, 7)
    assert {type(number) for x in points[0] for number in x} == {float}


@pytest.mark.parametrize("make", [moons, circles, spirals])
def test_a_data_set_follows_from_a_generator_of_numpys(make):
    numpy = pytest.importorskip("numpy")
    for kind in (numpy.random.default_rng, numpy.random.RandomState):
        rng = kind(7)
        first = make(30, rng=rng)
        assert first == make(30, rng=kind(7)) != make(30, rng=kind(8))
        assert first != make(30, rng=rng)  # which it is used on from where it stands


@pytest.mark.parametrize("rng", ["7", 7.0, [7], object()])
def test_what_is_no_source_of_random_numbers_is_refused_by_name(rng):
    for use in (lambda: moons(rng=rng), lambda: batches([1], [1], 1, rng)):
        with pytest.raises(TypeError, match="rng is .*: expected a random.Random, a NumPy generator or a seed"):
            use()


# Batches


@pytest.mark.parametrize("n", [0, 1, 9, 10, 11])
def test_batches_hold_every_example_once_with_its_target(n):
    xs, ys = list(range(n)), [-x for x in range(n)]
    got = list(batches(xs, ys, 5, rng=1))
    assert [len(batch_xs) for batch_xs, _ in got] == [5] * (n // 5) + [n % 5] * (n % 5 > 0)
    assert sorted(x for batch_xs, _ in got for x in batch_xs) == xs
    assert all(batch_ys == [-x for x in batch_xs] for batch_xs, batch_ys in got)


def test_batches_are_in_a_new_random_order_each_time():
    xs = list(range(100))
    rng = random.Random(1)
    first, second = (list(batches(xs, xs, 10, rng)) for _ in range(2))
    assert first != second
    assert xs == list(range(100))
    assert first == list(batches(xs, xs, 10, rng=1))
    random.seed(1)
    assert first == list(batches(xs, xs, 10))


def test_batches_of_tables_go_by_position_and_not_by_label():
    pandas = pytest.importorskip("pandas")
    labels = random.Random(1).sample(range(10), 10)
    xs = pandas.DataFrame({"a": range(10), "b": range(10, 20)}, index=labels)
    ys = pandas.Series(range(20, 30), index=labels)
    got = [pair for batch in batches(xs, ys, 3, rng=1) for pair in zip(*batch, strict=True)]
    assert sorted((*x, y) for x, y in got) == [(i, 10 + i, 20 + i) for i in range(10)]


@pytest.mark.parametrize("xs", [{0: 1.0}, {1.0}, iter([1.0]), 1.0])
def test_batches_are_of_what_has_items_by_position(xs):
    with pytest.raises(TypeError, match=f"xs is of type {type(xs).__name__}: expected a list or an array"):
        batches(xs, [1.0], 1)


# IDX files


def idx(code, shape, numbers):
    return struct.pack(f">HBB{len(shape)}I", 0, code, len(shape), *shape) + numbers


IMAGES = idx(8, [2, 2, 3], bytes(range(250, 256)) + bytes(range(6)))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file"


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_images_come_as_flat_arrays_and_labels_as_numbers(path, pack):
    path.write_bytes(pack(IMAGES))
    assert read_idx(path) == [array("B", [250, 251, 252, 253, 254, 255]), array("B", range(6))]
    path.write_bytes(pack(idx(8, [3], bytes([7, 0, 9]))))
    assert read_idx(str(path)) == [7, 0, 9]
    path.write_bytes(pack(idx(8, [0], b"")))
    assert read_idx(path) == []


@pytest.mark.parametrize(
    ("code", "letter", "numbers"),
    [
        (0x08, "B", [0, 255]),
        (0x09, "b", [-128, 127]),
        (0x0B, "h", [-(2**15), 258]),
        (0x0C, "i", [-(2**31), 16909060]),
        (0x0D, "f", [0.5, -1.25]),
        (0x0E, "d", [0.1, -1e300]),
    ],
)
def test_every_type_of_number_is_read_in_its_byte_order(path, code, letter, numbers):
    path.write_bytes(idx(code, [2], struct.pack(f">2{letter}", *numbers)))
    assert read_idx(path) == numbers


@pytest.mark.parametrize("order", ["little", "big"])
def test_numbers_are_swapped_on_machines_of_the_other_byte_order_only(path, monkeypatch, order):
    path.write_bytes(idx(0x0B, [1], b"\x01\x02"))
    native = array("h", b"\x01\x02")
    if order == "little":
        native.byteswap()
    monkeypatch.setattr("micrograd.data.sys.byteorder", order)
    assert read_idx(path) == native.tolist()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "ends 4 bytes early"),
        (IMAGES[:6], "ends 10 bytes early"),
        (IMAGES[:-1], "ends 1 bytes early"),
        (IMAGES + b"\0", "it has more data after the 2 items"),
        (b"\x89PNG" + IMAGES, "begins with 89 50 4e 47"),
        (idx(7, [1], b"\0"), "begins with 00 00 07 01"),
        (idx(8, [], b""), "begins with 00 00 08 00"),
        (idx(8, [2**32 - 1, 0], b""), "4294967295 items without numbers"),
        (idx(14, [2**32 - 1] * 255, b""), "the limit of 1073741824 bytes"),
        (idx(8, [2**30], b""), "ends 1073741824 bytes early"),
        (gzip.compress(IMAGES, mtime=0)[:-1], "ended before"),
        (gzip.compress(IMAGES, mtime=0)[:15], "ended before"),
        (gzip.compress(IMAGES, mtime=0)[:-8] + bytes(8), "CRC"),
        (gzip.compress(IMAGES + b"\0", mtime=0), "it has more data after the 2 items"),
        (gzip.compress(IMAGES, mtime=0) + b"tail", "gzip"),
        (gzip.compress(IMAGES, mtime=0)[:10] + b"\xff" * 20, "invalid"),
    ],
)
def test_a_damaged_or_foreign_idx_file_is_refused_by_name(path, content, message):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_idx(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_an_oserror(path):
    for read in (read_idx, read_csv):
        with pytest.raises(FileNotFoundError):
            read(path)


def peak(call):
    tracemalloc.start()
    try:
        with pytest.raises(ValueError):
            call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_forged_size_takes_no_memory(path):
    path.write_bytes(idx(8, [2**30], bytes(1000)))
    assert peak(lambda: read_idx(path)) < 5e6
    path.write_bytes(gzip.compress(idx(8, [2**29, 2], bytes(1000))))
    assert peak(lambda: read_idx(path)) < 5e6


def test_a_gzip_bomb_is_not_unpacked(path):
    honest = gzip.compress(idx(8, [50_000_000], bytes(50_000_000)), 9)
    path.write_bytes(honest)
    assert len(honest) < 100_000
    assert peak(lambda: read_idx(path, limit=10_000_000)) < 5e6
    path.write_bytes(gzip.compress(idx(8, [10], bytes(50_000_000)), 9))  # more than the header claims
    assert peak(lambda: read_idx(path)) < 5e6


def test_the_limit_counts_the_bytes_of_the_numbers(path):
    path.write_bytes(idx(0x0E, [2], struct.pack(">2d", 1, 2)))
    assert read_idx(path, limit=16) == [1, 2]
    with pytest.raises(ValueError, match="limit"):
        read_idx(path, limit=15)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_any_damage_to_an_idx_file_is_a_value_error_or_gives_other_numbers(path, pack):
    content = pack(IMAGES)
    survived, named = 0, set()
    path.touch()
    for damaged in damages(content):
        overwrite(path, damaged)
        try:
            items = read_idx(path)
        except ValueError as error:
            named.add(str(path) in str(error))
        else:
            survived += 1
            assert all(isinstance(item, (array, int)) for item in items)
    assert survived > 0  # a flip in a pixel, or in gzip's unused fields
    assert named == {True}


def overwrite(path, content):
    """Give a file that exists other content, without the wait of some file systems when it is emptied first."""
    with open(path, "r+b") as file:
        file.write(content)
        file.truncate()


def damages(content):
    """The content with each bit flipped, with each byte at its extremes, and cut short everywhere."""
    for i in range(len(content)):
        for bit in range(8):
            yield content[:i] + bytes([content[i] ^ 1 << bit]) + content[i + 1 :]
        for byte in (b"\0", b"\xff"):
            yield content[:i] + byte + content[i + 1 :]
        yield content[:i]


# CSV files


def test_a_csv_gives_the_inputs_and_the_target_of_each_line(path):
    path.write_text("1,2.5,3\r\n\n-4,5e-1,-6\n")
    assert read_csv(path) == ([[1.0, 2.5], [-4.0, 0.5]], [3, -6])
    assert read_csv(path, 0) == ([[2.5, 3.0], [0.5, -6.0]], [1, -4])
    assert read_csv(path, target=1)[1] == [2.5, 0.5]
    xs, ys = read_csv(path)
    assert {type(number) for x in xs for number in x} == {float}
    assert {type(y) for y in ys} == {int}


def test_a_csv_may_have_a_header_words_and_another_delimiter(path):
    path.write_text('a;b\n1;"up"\n2;down\n')
    assert read_csv(path, header=True, delimiter=";", labels=["down", "up"]) == ([[1.0], [2.0]], [1, 0])


def test_a_csv_may_begin_with_the_mark_that_spreadsheets_write(path):
    path.write_text("\ufeff1,2\n", encoding="utf-8")
    assert read_csv(path) == ([[1.0]], [2])


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"", {}, "holds no examples"),
        (b"\n\n", {}, "holds no examples"),
        (b"a,b\n", {"header": True}, "holds no examples"),
        (b"", {"header": True}, "holds no examples"),
        (b"a,b\n1,2\n", {}, "line 1: 'b' is not a finite number; header=True"),
        (b"\n,b\n1,2\n", {}, "line 2: 'b' is not a finite number; header=True"),
        (b"1,x\n1,2\n", {}, r"line 1: 'x' is not a finite number; if .* words, .*labels=\['x', ...\]$"),
        (b"1,nan\n1,2\n", {}, "line 1: 'nan' is not a finite number$"),
        (b"1,2\n1,2\n", {"target": 5}, "line 1: there is no column 5 among its 2$"),
        (b'1,"2\n', {}, "line 1: unexpected end of data$"),
        (b"1,2\n1,x\n", {}, "line 2: 'x' is not a finite number$"),
        (
            b"1,New York\n",
            {},
            r"line 1: 'New York' is not a finite number; if .* words, .*labels=\['New York', ",
        ),
        (b"a,b\n1;2,5;0\n", {"header": True}, "line 2: '5;0' is not a finite number; delimiter=';' separates"),
        (b"1;2,5;0\n", {}, "line 1: '5;0' is not a finite number; delimiter=';' separates its columns"),
        (b"1\n2\n", {}, "line 1: it has only one column: expected the inputs of an example and its target$"),
        (b"1,5;2\n", {"delimiter": ";"}, "line 1: '1,5' is not a finite number$"),
        (
            b"a,b\n1,x\n",
            {"header": True},
            r"line 2: 'x' is not a finite number; if .* words, .*labels=\['x', ",
        ),
        (b"1,2\nx,1\n", {}, "line 2: 'x' is not a finite number$"),
        (b"1,2\n,2\n", {}, r"line 2: a number is missing$"),
        (b"1,2\n3,\n", {}, r"line 2: a number is missing$"),
        (b"1, \n", {}, r"line 1: a number is missing$"),
        (b"1,2\n# later\n", {}, "line 2: it has 1 column, .* has 2; comments are not skipped: remove them$"),
        (b"# a, b\n1,2\n", {}, "line 1: .*; comments are not skipped: remove them$"),
        (b"1,2\nsee below;\n", {}, "line 2: it has 1 column, but the first line has 2$"),
        (b"1,2\nnan,2\n", {}, "line 2: 'nan' is not"),
        (b"1,2\n1,1e999\n", {}, "line 2: '1e999' is not"),
        (b"1,2\n1\n", {}, "line 2: it has 1 column, but the first line has 2"),
        (b"a,b,c\n1,2\n", {"header": True}, "line 2: it has 2 columns, but the first line has 3"),
        (b"1,2\n", {"target": 2}, "no column 2 among its 2"),
        (b"1,2\n", {"target": -3}, "no column -3"),
        (b"1,sideways\n", {"labels": ["up"]}, r"'sideways' is not among the labels \['up'\]"),
        (b'1,"2\n', {}, "line 1: unexpected end"),
        (b"1_0,2\n", {}, "line 1: '1_0' is not a finite number"),
        (b"1,2_5\n", {}, "line 1: '2_5' is not a finite number"),
        (b"1,\xff\n", {}, "is not text in UTF-8"),
        (gzip.compress(b"1,2\n", mtime=0), {}, "is not text in UTF-8"),
        (b"1," + b"9" * 200_000, {}, "line 1: field larger"),
        (b"1," + b"9" * 5000, {}, "line 1: '999"),
    ],
)
def test_a_damaged_or_foreign_csv_is_refused_by_name_and_line(path, content, options, message):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_csv(path, **options)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 300 + len(str(path))


def test_the_labels_of_a_csv_go_by_position(path):
    pandas = pytest.importorskip("pandas")
    path.write_text("1,down\n2,up\n")
    assert read_csv(path, labels=pandas.Series(["down", "up"], index=[5, 6])) == ([[1.0], [2.0]], [0, 1])


def test_the_labels_of_a_csv_are_a_list(path):
    path.write_text("1,ab\n")
    with pytest.raises(TypeError, match="labels is 'abc': expected a list of words"):
        read_csv(path, labels="abc")
    for unordered in ({"ab", "c"}, {"ab": 0}, frozenset(["ab"])):
        with pytest.raises(TypeError, match=f"labels is of type {type(unordered).__name__}: expected a list of words"):
            read_csv(path, labels=unordered)
    assert read_csv(path, labels={"ab": 0}.keys()) == ([[1.0]], [0])


def test_the_letters_of_a_text_are_examples():
    assert sorted(x for xs, _ in batches("hello", "ellow", 2, rng=1) for x in xs) == sorted("hello")
    assert train_test_split([1, 2, 3, 4], [1, 2, 3, 4], 0.5, rng=1, stratify="aabb")


@pytest.mark.parametrize("target", ["b", 1.0, None, True, [1]])
def test_the_target_of_a_csv_is_the_number_of_a_column(path, target):
    path.write_text("a,b\n1,2\n")
    with pytest.raises(TypeError, match=r"^target is .*: expected the index of a column: 0 for the first, -1 for the"):
        read_csv(path, target, header=True)


@pytest.mark.parametrize("separator", [";", "\t", "|", " ", ","])
@pytest.mark.parametrize("names", ["", "length,width,kind"])
def test_what_the_errors_of_a_csv_advise_reads_it(path, separator, names):
    path.write_text(f"{names}\n1,2.5,3\n4,5,6\n".replace(",", separator))
    options = {"delimiter": ";" if separator == "," else ","}
    for _ in range(2 if names else 1):
        with pytest.raises(ValueError) as caught:
            read_csv(path, **options)
        name, value = re.search(r"; (delimiter|header)=('.*?'|True) ", str(caught.value)).groups()
        options[name] = ast.literal_eval(value)
    assert read_csv(path, **options) == ([[1.0, 2.5], [4.0, 5.0]], [3, 6])


def test_a_whole_number_with_too_many_digits_for_an_int_is_a_float(path):
    path.write_text("1," + "0" * 5000 + "7\n")
    assert read_csv(path)[1] == [7.0]


def test_any_damage_to_a_csv_is_a_value_error_or_gives_other_numbers(path):
    content = b'1.5,-2,0\n"3e-1",4,1\n'
    survived, named = 0, set()
    path.touch()
    for damaged in damages(content):
        overwrite(path, damaged)
        try:
            xs, ys = read_csv(path)
        except ValueError as error:
            named.add(str(path) in str(error))
        else:
            survived += 1
            assert len(xs) == len(ys) > 0
            assert all(math.isfinite(number) for x, y in zip(xs, ys, strict=True) for number in [*x, y])
    assert survived > 0
    assert named == {True}


# Before training

XS, YS = [[i, 2 * i] for i in range(100)], [int(i % 5 == 0) for i in range(100)]


@pytest.mark.parametrize(("test_size", "n"), [(0.25, 25), (0.07, 7), (1, 1), (99, 99)])
def test_a_split_has_each_example_once_with_its_target(test_size, n):
    train_xs, test_xs, train_ys, test_ys = train_test_split(XS, YS, test_size, rng=1)
    assert (len(test_xs), len(train_xs)) == (n, 100 - n)
    assert sorted(train_xs + test_xs) == XS
    for xs, ys in ((train_xs, train_ys), (test_xs, test_ys)):
        assert ys == [YS[x] for x, _ in xs]


def test_a_split_is_in_random_order_and_follows_from_its_seed():
    one, other = train_test_split(XS, YS, rng=1), train_test_split(XS, YS, rng=2)
    assert one == train_test_split(XS, YS, rng=random.Random(1))
    assert one != other
    assert one[0] != sorted(one[0])


@pytest.mark.parametrize("size", [5, 0.33, 50])
def test_a_stratified_split_has_the_same_share_of_each_class_in_both_parts(size):
    for seed in range(5):
        _, _, train_ys, test_ys = train_test_split(XS, YS, size, rng=seed, stratify=YS)
        assert abs(sum(test_ys) - len(test_ys) / 5) <= 1
        assert sum(train_ys) + sum(test_ys) == 20
    assert {sum(train_test_split(XS, YS, 10, rng=seed)[3]) for seed in range(20)} != {2}


def test_arrays_are_split_and_standardized_into_arrays():
    numpy = pytest.importorskip("numpy")
    parts = train_test_split(numpy.array(XS), numpy.array(YS), rng=1, stratify=numpy.array(YS))
    assert [part.tolist() for part in parts] == [*train_test_split(XS, YS, rng=1, stratify=YS)]
    scaled, scaling = standardize(numpy.array(XS))
    assert scaled.tolist() == standardize(XS)[0]
    assert scaling(numpy.array([[0, 1]], dtype="uint8")).tolist() == scaling([[0, 1]])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: train_test_split(XS, YS, 0.001), ValueError, "test_size is 0.001: expected one that divides 100"),
        (lambda: train_test_split(XS, YS, 100), ValueError, "test_size is 100: expected one that divides 100"),
        (lambda: train_test_split(XS, YS, 1.0), ValueError, "test_size is 1.0: expected .* below 1"),
        (lambda: train_test_split(XS, YS, True), ValueError, "test_size is True"),
        (lambda: train_test_split(XS, YS[1:]), ValueError, "same length"),
        (lambda: train_test_split(XS, YS, stratify=[0]), ValueError, "stratify has 1 classes: expected 100"),
        (lambda: train_test_split(XS, YS, stratify={0}), TypeError, "stratify is of type set"),
        (lambda: standardize([]), ValueError, "xs is empty: expected at least one row"),
        (lambda: standardize([1.0, 2.0]), TypeError, r"xs\[0\] is of type float: expected a list"),
        (lambda: standardize([[1.0, math.nan]]), ValueError, r"xs\[0\]\[1\] is nan: expected a finite number"),
        (
            lambda: standardize([[0.0, 1.7e308], [1.0, -1.7e308]]),
            ValueError,
            "numbers of a column are too large for doubles",
        ),
        (lambda: standardize([[1.7e308], [1.6e308]]), ValueError, "numbers of a column are too large for doubles"),
        (lambda: standardize([[1.0], [1.0, 2.0]]), ValueError, r"xs\[1\] has 2 numbers: expected 1"),
        (lambda: standardize([[1.0]])[1]([[1.0, 2.0]]), ValueError, r"xs\[0\] has 2 numbers: expected 1"),
    ],
)
def test_a_split_or_a_scaling_that_makes_no_sense_is_an_error(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_standardized_columns_have_mean_0_and_deviation_1_and_others_are_scaled_alike():
    rng = random.Random(1)
    xs = [[rng.gauss(5.0, 3.0), 1e300 * rng.random(), 0.1] for _ in range(50)]
    scaled, scaling = standardize(xs)
    for column in [*zip(*scaled, strict=True)][:2]:
        assert math.fsum(column) == pytest.approx(0.0, abs=1e-12)
        assert math.fsum(x * x for x in column) == pytest.approx(50.0)
    assert {x for _, _, x in scaled} == {0.0}
    assert (scaling.mean[2], scaling.deviation[2]) == (0.1, 1.0)
    mean, deviation = scaling.mean[0], scaling.deviation[0]
    assert scaling([[mean + 2 * deviation, 0.0, 1.1]])[0][::2] == pytest.approx([2.0, 1.0])


def test_standardizing_is_that_of_scikit_learn():
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    scaler = preprocessing.StandardScaler().fit(XS)
    scaled, scaling = standardize(XS)
    assert scaling.mean == pytest.approx(scaler.mean_.tolist())
    assert scaling.deviation == pytest.approx(scaler.scale_.tolist())
    assert scaled == [pytest.approx(row) for row in scaler.transform(XS).tolist()]
