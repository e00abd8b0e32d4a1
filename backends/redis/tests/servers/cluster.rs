//! A cluster of three primaries without replicas.

use leasehold_faults::process::Port;

use super::{Options, Server, wait_until};

/// A cluster has this many slots.
const SLOTS: usize = 16384;

/// How many nodes share them.
const NODES: usize = 3;

/// Three servers that share the slots.
#[derive(Debug)]
pub struct Cluster {
    pub nodes: [Server; NODES],
    /// Over which the nodes talk to each other.
    buses: [Port; NODES],
}

impl Cluster {
    /// Starts the nodes and makes them a cluster. When this returns, all of them serve it.
    pub fn start(options: &Options) -> Self {
        let buses: [Port; NODES] = std::array::from_fn(|_| Port::reserve().unwrap());
        let nodes = buses.each_ref().map(|bus| node(options, bus));
        let cluster = Self { nodes, buses };
        for number in 0..NODES {
            cluster.give_slots(number);
        }
        for (node, bus) in cluster.nodes.iter().zip(&cluster.buses).skip(1) {
            let (port, bus) = (node.port().to_string(), bus.number().to_string());
            cluster.nodes[0].ask(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
        }
        cluster.wait_until_it_serves();
        cluster
    }

    /// Where a client finds it.
    pub fn url(&self) -> String {
        let nodes = self.nodes.each_ref().map(|it| it.addr().to_string());
        format!("redis+cluster://{}", nodes.join(","))
    }

    /// The node that has the slot of this key, by its number.
    pub fn owner(&self, key: &str) -> usize {
        let slot = self.nodes[0].ask(&["CLUSTER", "KEYSLOT", key]).text();
        let slot: usize = slot.parse().unwrap();
        (0..NODES).find(|it| slots(*it).contains(&slot)).unwrap()
    }

    /// Waits until every node takes the cluster for whole.
    pub fn wait_until_it_serves(&self) {
        wait_until("every node serves the cluster", || {
            self.nodes.iter().all(|node| {
                let info = node.ask(&["CLUSTER", "INFO"]).text();
                let says = |line: &str| info.lines().any(|it| it == line);
                says("cluster_state:ok") && says("cluster_known_nodes:3") && says("cluster_size:3")
            })
        });
    }

    fn give_slots(&self, number: usize) {
        let node = &self.nodes[number];
        let range = slots(number);
        let (first, last) = (range.start.to_string(), (range.end - 1).to_string());
        node.ask(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]);
        // Each needs its own, or they would have to sort it out among each other.
        let epoch = (number + 1).to_string();
        node.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]);
    }
}

/// The slots of a node.
fn slots(number: usize) -> std::ops::Range<usize> {
    number * SLOTS / NODES..(number + 1) * SLOTS / NODES
}

fn node(options: &Options, bus: &Port) -> Server {
    let options = options.clone().setting("cluster-enabled", "yes");
    let options = options.setting("cluster-port", &bus.number().to_string());
    let options = options.setting("cluster-announce-ip", "127.0.0.1");
    options.setting("cluster-node-timeout", "1000").start()
}
