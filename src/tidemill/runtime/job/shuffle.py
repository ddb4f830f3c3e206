"""The shuffle between supersteps: as ``RDD.partitionBy``, with a limit in bytes on what is gathered.

PySpark gathers records until there are twenty of them, or a thousand, before it looks how large they are. Records here
may have megabytes each, so these are gathered by bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from pyspark import RDD
from pyspark.serializers import BatchedSerializer, CPickleSerializer, pack_long

from tidemill.runtime.job.superstep import Record

GATHERED_BYTES = 1 << 20
"""The size of records that are sent together."""


def to_partitions(rdd: RDD[Record], partitions: int) -> RDD[Record]:
    """Records at the partitions that their first element names."""
    context = rdd.ctx
    keyed: Any = rdd.mapPartitions(partial(gathered, GATHERED_BYTES), preservesPartitioning=True)
    keyed._bypass_serializer = True
    jvm: Any = context._jvm
    pairs = jvm.PairwiseRDD(keyed._jrdd.rdd()).asJavaPairRDD()
    partitioner = jvm.PythonPartitioner(partitions, id(to_partitions))
    values = jvm.PythonRDD.valueOfPair(pairs.partitionBy(partitioner))
    return RDD(values, context, BatchedSerializer(CPickleSerializer()))


def gathered(most_bytes: int, records: Iterable[Record]) -> Iterator[bytes]:
    """The number of a partition, then records for it, and so on, both as Spark's Java side takes them."""
    serializer = CPickleSerializer()
    waiting: defaultdict[int, list[Record]] = defaultdict(list)
    size = 0
    for record in records:
        waiting[record[0]].append(record)
        size += len(record[1])
        if size >= most_bytes:
            yield from _sent(waiting, serializer)
            size = 0
    yield from _sent(waiting, serializer)


def _sent(waiting: defaultdict[int, list[Record]], serializer: CPickleSerializer) -> Iterator[bytes]:
    while waiting:
        partition, records = waiting.popitem()
        yield pack_long(partition)
        yield serializer.dumps(records)
